package hazards

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
	"github.com/lockport/lockport/internal/lab/servers"
)

// The scripts of this file harm servers.

// of is the script of a cell of package faults. Then both believe for a while.
func of(world, fault string, ttl time.Duration) script {
	return func(p *trial) {
		for _, a := range faults.All() {
			for _, c := range a.Cells {
				if a.Name == world && c.Fault == fault && c.Script != nil {
					p.patient(ttl)
					check(c.Script(p.ctx, p.Phase))
					p.sleep(believed)
					check(p.Workers()[0].Kill()) // which may hear nothing, and would try to release for 5 s
					return
				}
			}
		}
		check(fmt.Errorf("no cell %s of %s has a script", fault, world))
	}
}

// overtaken has A hold a lock while damage is done to the servers, B acquire it then, and both write.
func overtaken(damage script) script {
	return func(p *trial) {
		p.patient(patientTTL)
		wa, wb := p.worker(), p.worker()
		p.overtake(p.holds(wa), wb, damage)
	}
}

// unheard is overtaken where the network of A falls silent first, so that A hears nothing of what happens to the servers.
func unheard(damage script) script {
	return func(p *trial) {
		p.patient(patientTTL)
		wa, wb := p.worker(), p.worker()
		a := p.holds(wa)
		defer p.silence(wa)()
		p.overtake(a, wb, damage)
	}
}

func (p *trial) overtake(a *play.Hold, wb *play.Worker, damage script) {
	p.Injected()
	damage(p)
	p.Healed()
	b, err := p.acquire(wb, p.Name(), lasting)
	if taken(err) {
		p.found(report.Safe, "B did not get the lock within %s.", text(lasting))
		return
	}
	check(err)
	p.bothWrite(a, b)
}

// watched has A hold a lock, B ask for it all the time, and C take and release another lock, while damage is done to the servers that are left as they are. It
// lasts until C's lock can be had again. What that has done to each, is found.
func watched(damage script) script {
	return func(p *trial) {
		p.patient(patientTTL)
		wa, wb, wc := p.workers()
		a := p.holds(wa)
		p.warmUp(wc)
		rival := p.asksAllTheTime(wb)
		defer rival()
		p.Injected()
		damage(p)
		struck := time.Now()
		for again := true; again; {
			h, err := wc.Acquire(p.ctx, p.Name()+"-free", time.Second)
			if again = err != nil; !again {
				p.release(h)
			} else if time.Since(struck) > lasting {
				p.found(report.Unavailable, "For %s nobody could have a lock.", text(time.Since(struck)))
				return
			} else {
				p.sleep(10 * time.Millisecond)
			}
		}
		p.found(report.Safe, "C could have another lock again after %s.", text(time.Since(struck)))
		p.Note("another lock can be had again")
		p.Healed()
		healed := history.Now()
		p.sleep(believed) // in which the rival may get what it ought not to
		p.answeredSince(wb, a, healed)
		b, told := rival(), p.event(a, history.Told).At
		switch {
		case b != nil && (told == 0 || told > p.event(b, history.Got).At):
			p.both(a, b)
		case told != 0:
			p.found(report.Safe, "A was told that its lock was lost.")
		default:
			p.found(report.Safe, "A kept its lock, and B, which asked for it all the time, did not get it.")
		}
	}
}

// asksAllTheTime has a worker try to get the lock until it does, or until stop is called, which returns what it got.
func (p *trial) asksAllTheTime(w *play.Worker) (stop func() *play.Hold) {
	ctx, cancel := context.WithCancel(p.ctx)
	var got *play.Hold
	var asking sync.WaitGroup
	asking.Go(func() {
		for ctx.Err() == nil && got == nil {
			got, _ = w.TryAcquire(ctx, p.Name(), time.Second)
			_ = p.Sleep(ctx, 20*time.Millisecond)
		}
	})
	return func() *play.Hold {
		cancel()
		asking.Wait()
		return got
	}
}

// answeredSince waits until the rival has the lock, or was told by an attempt begun after an instant that another one has it, or the holder was told of its loss. A
// rival that only gets errors has not seen that the lock is still taken.
func (p *trial) answeredSince(rival *play.Worker, held *play.Hold, since history.Instant) {
	for limit := time.Now().Add(lasting); p.event(held, history.Told).At == 0; p.sleep(20 * time.Millisecond) {
		h := must(newHistory(p.Events()))
		for _, a := range attempts(h) {
			if a.Worker == rival.Name && a.Name == p.Name() && (a.Got != 0 || a.Asked > since && a.Class == history.ClassHeld) {
				return
			}
		}
		if time.Now().After(limit) {
			check(fmt.Errorf("%s was not told within %v whether somebody has the lock", lane(rival.Name), lasting))
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

// unreplicated has a replica hear nothing, A take the lock, and the replica take the place of its master, which is killed.
func unreplicated(p *trial) {
	lagging(p)
	overtaken(replaced)(p)
}

// replicated has a replica hear nothing while A holds a lock of which it has heard, looks whether another lock can be had then, and has the replica take the place
// of its master, which is killed.
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

// twoMariaDBs has a server that knows nothing take the place of one that lives on, and a holder with it.
func twoMariaDBs(p *trial) {
	a := p.holds(p.worker())
	spare := must(servers.StartMariaDB(p.ctx, servers.MariaDBOptions{}))
	defer spare.Close()
	p.Injected()
	p.Note("another server takes the place of the first one, which lives on")
	running := *p.Environment
	endpoint := running.Endpoint
	running.Endpoint = func() (*environment.Endpoint, error) {
		e, err := endpoint()
		if err == nil {
			err = e.Links[0].Retarget(spare.Addr())
		}
		return e, err
	}
	p.Environment = &running
	b := p.has(p.worker())
	p.bothWrite(a, b)
	p.release(b)
}

// votesForgotten has A, which reaches only so many of five nodes, take the lock, and some of those forget their votes by what is done to them; then B asks for it.
func votesForgotten(reached, forgotten int, what string, forget func(p *trial, n environment.Node)) script {
	return func(p *trial) {
		p.patient(patientTTL)
		wa, wb := p.worker(), p.worker()
		if reached < 5 {
			defer p.cutOff(wa, "cut off from two of the five")()
			wa.Endpoint.Links[reached:].Each((*faultproxy.Proxy).Cut)
		}
		a, nodes := p.holds(wa), p.Environment.Nodes()
		for _, n := range nodes[:reached] { // a majority is enough for A, and the votes of the others may still be on their way
			check(environment.Eventually(p.ctx, func(ctx context.Context) error {
				there, err := redisDo(ctx, n, "EXISTS", "lockport:"+p.Name(), articleKey(p.Name()))
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
func clockSetForward(p *trial, n environment.Node) { jump(n, 2*patientTTL) }

// jump sets the clock of a Redis.
func jump(n environment.Node, by time.Duration) {
	check(servers.ClockInstalled())
	check(n.(interface{ JumpClock(d time.Duration) error }).JumpClock(by))
}

func clockForward(p *trial) {
	p.Note("the server's clock is set forward by %s", text(2*patientTTL))
	clockSetForward(p, p.Environment.Nodes()[0])
}

// clockSetBack sets the clock of a Redis back by an hour when a holder has died, and looks whether B has the lock within three TTLs. In the end the clock is set
// right, which ends all.
func clockSetBack(p *trial) {
	wa, wb := p.worker(), p.worker()
	p.holds(wa)
	node, within := p.Environment.Nodes()[0], 3*p.Environment.TTL
	p.Injected()
	check(wa.Kill())
	p.Note("the clock is set back by an hour")
	jump(node, -time.Hour)
	asked := history.Now()
	b, err := p.acquire(wb, p.Name(), within)
	switch {
	case err == nil:
		p.found(report.Safe, "B had the lock %s after A had died.", text(p.after(asked, b)))
	case taken(err):
		p.found(report.Stuck, "A was dead, and %s later, three times the TTL, the lock was still taken: B, which waited, had not got it.", text(within))
	default:
		check(err)
	}
	p.Note("the clock is set right")
	jump(node, time.Hour)
	p.Healed()
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
	check(node.Restart(p.ctx))
	p.Healed()
	p.Note("the server is back")
	back := history.Now()
	b := p.has(wb)
	p.found(class, "When the server was killed, A %s. B had the lock %s after the server was back.", said, text(p.after(back, b)))
}
