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
)

// The scripts of this file harm servers.

// of is the script of a fault of package faults in an environment, or nil.
func of(environment, fault string) play.Act {
	here := faults.Cells(environment)
	i := slices.IndexFunc(here, func(c play.Cell) bool { return c.Fault == fault })
	if i < 0 {
		return nil
	}
	return func(s *play.Phase) {
		here[i].Script(s)
		s.Workers()[0].Kill() // it may get no answers, and would try to release for 5 s
	}
}

// watched has A hold a lock, and B keep asking for it, while damage is done to the servers. It ends when C can acquire another lock.
func watched(damage play.Act) play.Act {
	return func(s *play.Phase) {
		wa, wb, wc := s.Worker(), s.Worker(), s.Worker()
		a := holds(s, wa)
		s.Warm(wc)
		rival := s.Tries(wb, 20*time.Millisecond)
		s.Injected()
		damage(s)
		harmed := time.Now()
		free, err := wc.AcquireAtLast(s.Name+"-free", play.MaxWait, play.MaxWait)
		if taken(err) {
			s.Found(report.Unavailable, "Nobody could get a lock for %s.", text(time.Since(harmed)))
			rival.Stop()
			return
		}
		play.Check(err)
		s.Found(report.Safe, "C could get another lock after %s.", text(time.Since(harmed)))
		s.Note("other locks are available again")
		s.Healed()
		free.Release()
		s.Wait(believed) // the rival may get a lock it must not get
		b := rival.Stop()
		told := func() bool { return a.Event(history.Told).At != 0 }
		for b == nil && !told() && !play.IsRefusal(err, history.ClassHeld) { // errors do not say whether the lock is still held
			b, err = wb.TryAcquire(s.Name, time.Second)
			if time.Since(harmed) > 2*play.MaxWait {
				play.Check(fmt.Errorf("client B could not learn whether the lock is held: %w", err))
			}
		}
		switch {
		case b != nil && (!told() || a.Event(history.Told).At > b.Event(history.Got).At):
			s.Both(a, b)
		case told():
			s.Found(report.Safe, "A was told that its lock was lost.")
		default:
			s.Found(report.Safe, "A kept its lock. B kept asking for it and did not get it.")
		}
	}
}

// killed kills the leading server, or the first one.
func killed(note string) play.Act {
	return func(s *play.Phase) {
		i, err := s.Environment.Leader(s.Ctx)
		if !errors.Is(err, errors.ErrUnsupported) {
			play.Check(err)
		}
		s.Note("%s is killed", note)
		play.Check(s.Environment.Nodes()[i].Kill())
	}
}

// crashed kills the server and restarts it. If the lock ends with the server, A is told first.
func crashed(s *play.Phase) {
	node := s.Environment.Nodes()[0]
	s.Note("the server is killed")
	play.Check(node.Kill())
	if s.Environment.Sessions {
		s.Workers()[0].Await(0, func(e history.Event) bool { return e.Kind == history.Told })
	}
	s.Note("it restarts")
	play.Check(node.Restart(s.Ctx))
}

// replicated stops replication while A holds a lock that the replica has. It checks whether another lock can be acquired then, and promotes the
// replica.
func replicated(s *play.Phase) {
	s.Note("the replica receives nothing any more")
	faults.Lag(s)
	w, asked := s.Worker(), time.Now()
	h, err := w.TryAcquire(s.Name+"-unheard", 2*time.Second)
	if err == nil {
		s.Found(report.Unsafe, "A lock was granted that the replica did not have.")
		h.Release()
		return
	}
	if !play.IsRefusal(err, history.ClassUnavailable, history.ClassTimedOut) {
		play.Check(err)
	}
	s.Found(report.Unavailable, "While the replica received nothing, no lock was granted: D's attempt failed after %s.", text(time.Since(asked)))
	s.FailOver(0, 0)
	play.Check(s.Environment.Servers.(*environment.RedisPair).Follow(s.Ctx)) // no worker uses the old primary any more
	s.Note("the replica serves")
}

// diskLost kills one of the followers, deletes its disk, and restarts it.
func diskLost(s *play.Phase) {
	leader := play.Must(s.Environment.Leader(s.Ctx))
	s.Note("one of the members loses its disk")
	ctx, cancel := context.WithTimeout(s.Ctx, play.MaxWait)
	defer cancel()
	if play.Must(s.Environment.LoseDisk(ctx, (leader+1)%len(s.Environment.Nodes()))) {
		s.Note("it is back")
		s.Found(report.Safe, "The member without its disk came back, and got the data of the others.")
		return
	}
	s.Note("it does not come back")
	s.Found(report.Safe, "The member without its disk did not come back: it refuses to start as a known member until an operator adds it anew.")
}
