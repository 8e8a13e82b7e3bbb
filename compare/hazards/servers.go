package hazards

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
	"github.com/lockport/lockport/internal/lab/servers"
)

// The scripts of this file harm servers.

// of is the script of a cell of package faults. Then both believe for a while.
func of(environment, fault string) script {
	return func(p *trial) {
		for _, e := range faults.All() {
			i := slices.IndexFunc(e.Cells, func(c play.Cell) bool { return e.Name == environment && c.Fault == fault && c.Script != nil })
			if i >= 0 {
				check(e.Cells[i].Script(p.ctx, p.Phase))
				p.sleep(believed)
				check(p.Workers()[0].Kill()) // which may hear nothing, and would try to release for 5 s
				return
			}
		}
		check(fmt.Errorf("no cell %s of %s has a script", fault, environment))
	}
}

// overtaken has A hold a lock while damage is done to the servers. Then B acquires it, and both write.
func overtaken(damage script) script {
	return func(p *trial) {
		wa, wb := p.worker(), p.worker()
		p.overtake(p.holds(wa), wb, damage)
	}
}

// unheard is damage of which A hears nothing, since its network falls silent before.
func unheard(damage script) script {
	return func(p *trial) {
		a := p.Workers()[0]
		p.apart(a, "silent", a.Endpoint.Links, freeze)
		damage(p)
	}
}

func (p *trial) overtake(a *play.Hold, wb *play.Worker, damage script) {
	p.Injected()
	begun := history.Now()
	damage(p)
	p.Healed()
	if b := p.next(wb, begun, "the fault began"); b != nil {
		p.bothWrite(a, b)
	}
}

// watched has A hold a lock, and B ask for it all the time, while damage is done to the servers. It lasts until C can take another lock.
func watched(damage script) script {
	return func(p *trial) {
		wa, wb, wc := p.worker(), p.worker(), p.worker()
		a := p.holds(wa)
		p.warmUp(wc)
		rival := p.tries(wb, 20*time.Millisecond)
		p.Injected()
		damage(p)
		harmed := time.Now()
		free, err := p.acquire(wc, p.Name()+"-free", lasting)
		if taken(err) {
			p.found(report.Unavailable, "For %s nobody could have a lock.", text(time.Since(harmed)))
			p.stopped(rival)
			return
		}
		check(err)
		p.found(report.Safe, "C could have another lock again after %s.", text(time.Since(harmed)))
		p.Note("another lock can be had again")
		p.Healed()
		p.release(free)
		p.sleep(believed) // in which the rival may get what it ought not to
		b := p.stopped(rival)
		told := func() bool { return p.event(a, history.Told).At != 0 }
		for b == nil && !told() && !refusedFor(err, history.ClassHeld) { // errors do not say whether the lock is still taken
			b, err = wb.TryAcquire(p.ctx, p.Name(), time.Second)
			if time.Since(harmed) > 2*lasting {
				check(fmt.Errorf("B was not told whether somebody has the lock: %w", err))
			}
		}
		switch {
		case b != nil && (!told() || p.event(a, history.Told).At > p.event(b, history.Got).At):
			check(p.Both(p.ctx, a, b))
		case told():
			p.found(report.Safe, "A was told that its lock was lost.")
		default:
			p.found(report.Safe, "A kept its lock, and B, which asked for it all the time, did not get it.")
		}
	}
}

func nodeKilled(p *trial) {
	p.Note("one of the five is killed")
	check(p.Environment.Nodes()[0].Kill())
}

func leaderKilled(p *trial) {
	leader := must(p.Environment.Leader(p.ctx))
	p.Note("the leader is killed")
	check(p.Environment.Nodes()[leader].Kill())
}

func replaced(p *trial) {
	p.Note("the server is killed, and its replica is to take its place")
	check(p.FailOver(p.ctx))
	p.Note("the replica has taken its place")
}

func lagging(p *trial) {
	p.Note("the replica hears nothing any more")
	check(p.Environment.Lag(p.ctx))
}

// unreplicated has a replica hear nothing, A take the lock, and the replica take the place of its master.
func unreplicated(p *trial) {
	lagging(p)
	overtaken(replaced)(p)
}

// replicated has a replica hear nothing while A holds a lock of which it has heard. It looks whether another lock can be had then, and has the replica take the
// place of its master.
func replicated(p *trial) {
	lagging(p)
	w, asked := p.worker(), time.Now()
	h, err := w.TryAcquire(p.ctx, p.Name()+"-unheard", 2*time.Second)
	if err == nil {
		p.found(report.Unsafe, "A lock was granted of which the replica had not heard.")
		p.release(h)
		return
	}
	if !refusedFor(err, history.ClassUnavailable) && !refusedFor(err, history.ClassTimedOut) {
		check(err)
	}
	p.found(report.Unavailable, "While the replica heard nothing no lock was granted: D's attempt ended with an error after %s.", text(time.Since(asked)))
	replaced(p)
}

// votesForgotten has A, which reaches only so many of five nodes, take the lock. Some of those forget their votes, and then B asks for the lock.
func votesForgotten(reached, forgotten int, what string, forget func(p *trial, n environment.Node)) script {
	return func(p *trial) {
		wa, wb := p.worker(), p.worker()
		if reached < 5 {
			defer p.apart(wa, "cut off from two of the five", wa.Endpoint.Links[reached:], sever)(restore)
		}
		a, nodes := p.holds(wa), p.Environment.Nodes()
		for _, n := range nodes[:reached] { // a majority is enough for A, and the votes of the others may still be on their way
			check(environment.Eventually(p.ctx, func(ctx context.Context) error {
				there, err := redisDo(ctx, n, "EXISTS", environment.RedisKey(p.Name()), articleKey(p.Name()))
				if err == nil && there != int64(1) {
					err = fmt.Errorf("%s has not voted", n.Addr())
				}
				return err
			}))
		}
		p.overtake(a, wb, func(p *trial) {
			p.Note("%d of the %d servers that voted for A: %s", forgotten, reached, what)
			for _, n := range nodes[:forgotten] {
				forget(p, n)
			}
		})
	}
}

func restartedEmpty(p *trial, n environment.Node) { check(errors.Join(n.Kill(), n.Restart(p.ctx))) }

// clockSetForward ends all locks of a node, by more than any TTL.
func clockSetForward(_ *trial, n environment.Node) { jump(n, 2*patientTTL) }

// jump sets the clock of a Redis.
func jump(n environment.Node, by time.Duration) {
	check(servers.ClockInstalled())
	check(n.(interface{ JumpClock(d time.Duration) error }).JumpClock(by))
}

func clockForward(p *trial) {
	p.Note("the server's clock is set forward by %s", text(2*patientTTL))
	clockSetForward(p, p.Environment.Nodes()[0])
}

// clockSetBack sets the clock of a Redis back by an hour when a holder has died, and has B wait for the lock.
func clockSetBack(p *trial) {
	wa, wb := p.worker(), p.worker()
	killed, node := p.dies(wa), p.Environment.Nodes()[0]
	p.Note("the clock is set back by an hour")
	jump(node, -time.Hour)
	p.next(wb, killed, "A was killed")
	p.Note("the clock is set right")
	jump(node, time.Hour)
}

// diskLost has one of the members that follow be killed, lose its disk, and be started again.
func diskLost(p *trial) {
	leader := must(p.Environment.Leader(p.ctx))
	p.Note("one of the members loses its disk")
	ctx, cancel := context.WithTimeout(p.ctx, lasting)
	defer cancel()
	if must(p.Environment.LoseDisk(ctx, (leader+1)%len(p.Environment.Nodes()))) {
		p.Note("it is back")
		p.found(report.Safe, "The one that lost its disk came back, and the others gave it their data.")
		return
	}
	p.Note("it does not come back")
	p.found(report.Safe, "The one that lost its disk did not come back: it refuses to start as a member that the others have known, until an operator adds it anew.")
}

// diskLostAlone has a server that stands alone be killed, lose its disk, and be started again.
func diskLostAlone(p *trial) {
	p.Note("the server is killed, and loses its disk")
	node := p.Environment.Nodes()[0]
	check(errors.Join(node.Kill(), node.(interface{ WipeData() error }).WipeData(), node.Restart(p.ctx)))
	p.Note("the server is back, empty")
}

func nodeRestarted(p *trial) {
	p.Note("the server is restarted")
	check(p.Environment.Nodes()[0].Restart(p.ctx))
	p.Note("the server is back")
}

// restarted kills the server while A holds a lock, starts it again when A has been told, and has B take the lock.
func restarted(p *trial) {
	wa, wb := p.worker(), p.worker()
	a, node := p.holds(wa), p.Environment.Nodes()[0]
	p.Injected()
	p.Note("the server is killed")
	killed := history.Now()
	check(node.Kill())
	class, said := p.toldSince(a, killed)
	p.found(class, "When the server was killed, A %s.", said)
	check(node.Restart(p.ctx))
	p.Healed()
	p.Note("the server is back")
	p.next(wb, history.Now(), "the server was back")
}
