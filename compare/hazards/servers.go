package hazards

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
	"github.com/lockport/lockport/internal/lab/servers"
)

// The scripts of this file harm servers.

// of is the script of a fault of package faults in the same environment.
func of(fault string) script {
	return func(p *trial) {
		all := faults.All()
		here := all[slices.IndexFunc(all, func(e faults.Environment) bool { return e.Name == p.Environment.Name })].Cells
		p.Cell.Belief = believed
		here[slices.IndexFunc(here, func(c play.Cell) bool { return c.Fault == fault })].Script(p.Phase)
		p.Workers()[0].Kill() // which may hear nothing, and would try to release for 5 s
	}
}

// watched has A hold a lock, and B ask for it all the time, while damage is done to the servers. It lasts until C can take another lock.
func watched(damage script) script {
	return func(p *trial) {
		wa, wb, wc := p.Worker(), p.Worker(), p.Worker()
		a := p.holds(wa)
		p.warmUp(wc)
		rival := p.Tries(wb, 20*time.Millisecond)
		p.Injected()
		damage(p)
		harmed := time.Now()
		free, err := p.acquire(wc, p.Name()+"-free", lasting)
		if taken(err) {
			p.found(report.Unavailable, "For %s nobody could have a lock.", text(time.Since(harmed)))
			rival.Stop()
			return
		}
		play.Check(err)
		p.found(report.Safe, "C could have another lock again after %s.", text(time.Since(harmed)))
		p.Note("another lock can be had again")
		p.Healed()
		free.Release()
		p.Wait(believed) // in which the rival may get what it ought not to
		b := rival.Stop()
		told := func() bool { return a.Event(history.Told).At != 0 }
		for b == nil && !told() && !refusedFor(err, history.ClassHeld) { // errors do not say whether the lock is still taken
			b, err = wb.TryAcquire(p.Name(), time.Second)
			if time.Since(harmed) > 2*lasting {
				play.Check(fmt.Errorf("client B was not told whether somebody has the lock: %w", err))
			}
		}
		switch {
		case b != nil && (!told() || a.Event(history.Told).At > b.Event(history.Got).At):
			p.Both(a, b)
		case told():
			p.found(report.Safe, "A was told that its lock was lost.")
		default:
			p.found(report.Safe, "A kept its lock, and B, which asked for it all the time, did not get it.")
		}
	}
}

// killed kills a server: the one that leads, or the first.
func killed(note string) script {
	return func(p *trial) {
		i, err := p.Environment.Leader(p.Ctx)
		if !errors.Is(err, errors.ErrUnsupported) {
			play.Check(err)
		}
		p.Note("%s is killed", note)
		play.Check(p.Environment.Nodes()[i].Kill())
	}
}

// crashed kills a server, which starts again.
func crashed(p *trial) {
	node := p.Environment.Nodes()[0]
	p.Note("the server is killed, and starts again")
	play.Check(node.Kill())
	play.Check(node.Restart(p.Ctx))
}

// replicated has a replica hear nothing while A holds a lock of which it has heard. It looks whether another lock can be had then, and has the replica take the
// place of its master.
func replicated(p *trial) {
	p.Note("the replica hears nothing any more")
	play.Check(p.Environment.Lag(p.Ctx))
	w, asked := p.Worker(), time.Now()
	h, err := w.TryAcquire(p.Name()+"-unheard", 2*time.Second)
	if err == nil {
		p.found(report.Unsafe, "A lock was granted of which the replica had not heard.")
		h.Release()
		return
	}
	if !refusedFor(err, history.ClassUnavailable) && !refusedFor(err, history.ClassTimedOut) {
		play.Check(err)
	}
	p.found(report.Unavailable, "While the replica heard nothing no lock was granted: D's attempt ended with an error after %s.", text(time.Since(asked)))
	p.Note("the server is killed, and its replica is to take its place")
	p.FailOver()
	p.Note("the replica has taken its place")
}

// clockSetBack sets the clock of a Redis back by an hour when a holder has died, and has B wait for the lock.
func clockSetBack(p *trial) {
	wa, wb := p.Worker(), p.Worker()
	play.Check(servers.ClockInstalled())
	killed, node := p.dies(wa), p.Environment.Nodes()[0].(*servers.Redis)
	p.Note("the clock is set back by an hour")
	play.Check(node.JumpClock(-time.Hour))
	p.next(wb, killed, "A was killed")
	p.Note("the clock is set right")
	play.Check(node.JumpClock(time.Hour))
}

// diskLost has one of the members that follow be killed, lose its disk, and be started again.
func diskLost(p *trial) {
	leader := play.Must(p.Environment.Leader(p.Ctx))
	p.Note("one of the members loses its disk")
	ctx, cancel := context.WithTimeout(p.Ctx, lasting)
	defer cancel()
	if play.Must(p.Environment.LoseDisk(ctx, (leader+1)%len(p.Environment.Nodes()))) {
		p.Note("it is back")
		p.found(report.Safe, "The one that lost its disk came back, and the others gave it their data.")
		return
	}
	p.Note("it does not come back")
	p.found(report.Safe, "The one that lost its disk did not come back: it refuses to start as a member that the others have known, until an operator adds it anew.")
}

// restarted kills the server while A holds a lock, starts it again when A has been told, and has B take the lock.
func restarted(p *trial) {
	wa, wb := p.Worker(), p.Worker()
	a, node := p.holds(wa), p.Environment.Nodes()[0]
	p.Injected()
	p.Note("the server is killed")
	killed := history.Now()
	play.Check(node.Kill())
	class, said := p.toldSince(a, killed)
	p.found(class, "When the server was killed, A %s.", said)
	play.Check(node.Restart(p.Ctx))
	p.Healed()
	p.Note("the server is back")
	p.next(wb, history.Now(), "the server was back")
}
