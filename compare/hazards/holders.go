package hazards

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

// The scripts of this file have a holder work for too long, release too late, or ask again.

// worksLong has A hold for longer than its TTL.
func worksLong(s *play.Phase) {
	wa, wb := s.Worker(), s.Worker()
	a := s.Acquire(wa)
	waiting, work := s.Asks(wb, lasting), s.TTL*5/2
	if s.Until(work, waiting.Ended) {
		b := waiting.Got()
		found(s, report.Safe, "A had the lock, whose TTL is %s, for %s when B got it too.", text(s.TTL), text(after(a.Event(history.Got).At, b)))
		s.Both(a, b)
		return
	}
	a.Update()
	released := history.Now()
	a.Release()
	b := waiting.Got()
	found(s, report.Safe, "A worked for %s, 2.5 times its TTL; B, which waited, had the lock %s after A had begun to release it.", text(work), text(after(released, b)))
	b.Update()
}

// stop stops A, and returns the hold of B, which waits for the lock; nil if it waits in vain. What meanwhile does happens behind A's back.
func stop(s *play.Phase, a, b *play.Worker, meanwhile ...removal) *play.Hold {
	s.Injected()
	stopped := history.Now()
	a.Stop()
	for _, remove := range meanwhile {
		remove(s, s.Name())
	}
	return next(s, b, stopped, "A was stopped")
}

// stoppedBeforeItWrites is behindTheBack of a new worker.
func stoppedBeforeItWrites(meanwhile ...removal) play.Act {
	return func(s *play.Phase) { behindTheBack(s, s.Worker(), meanwhile...) }
}

// behindTheBack stops A in the middle of its work, until B has the lock and writes. Then A goes on, and writes before it looks at its lock.
func behindTheBack(s *play.Phase, wa *play.Worker, meanwhile ...removal) {
	wb, a := s.Worker(), holds(s, wa)
	b := stop(s, wa, wb, meanwhile...)
	if b == nil {
		return
	}
	b.Update()
	s.Wait(believed)
	resumed := history.Now()
	wa.Resume()
	s.Note("A goes on, and writes")
	a.Update()
	class, said := toldSince(s, a, resumed)
	s.Healed()
	found(s, class, "When A went on it wrote before it looked at its lock, and then %s.", said)
}

// stoppedBeforeItReleases stops A until B has its lock. Then A releases.
func stoppedBeforeItReleases(s *play.Phase) {
	a, b, c := s.Worker(), s.Worker(), s.Worker()
	older := holds(s, a)
	next := stop(s, a, b)
	if next == nil {
		return
	}
	next.Renewed(s.Length()) // from here to the next renewal is longest
	s.Note("A goes on, and releases")
	a.Resume()
	s.Healed()
	enters(s, c, next, s.Releases(older), "A's late release")
}

// releaseHeldUp has A release. The network holds up what A sends from request n on until B has the lock, and then lets it arrive.
func releaseHeldUp(n int64) play.Act {
	return func(s *play.Phase) {
		a, b, c := s.Worker(), s.Worker(), s.Worker()
		older := s.Acquire(a)
		older.Renewed(s.Length()) // so that the next renewal is far away
		s.Injected()
		var released *play.Task
		links := a.Endpoint.Links
		if n > 1 { // what is seen on its way is held up before it arrives
			before := links[0].Requests()
			slow := s.Apart(a, "slow", links, func(l *faultproxy.Proxy) { l.Delay(s.TTL / 8) })
			released = s.Releases(older)
			if !s.Until(2*s.TTL, func() bool { return links[0].Requests() >= before+n }) {
				play.Check(fmt.Errorf("a release had fewer than %d requests", n))
			}
			slow(freeze)
		}
		arrive := s.Apart(a, "silent", links, freeze)
		if n == 1 {
			released = s.Releases(older)
		}
		next := next(s, b, history.Now(), "A's release was held up")
		if next == nil {
			return
		}
		next.Renewed(s.Length())
		s.Note("what A has sent arrives")
		arrive(restore)
		s.Healed()
		enters(s, c, next, released, "A's release, which was held up,")
	}
}

// enters has C ask for the lock of next until another release has returned, and for a while longer, and says what came of it.
func enters(s *play.Phase, c *play.Worker, next *play.Hold, released *play.Task, why string) {
	trying := s.Tries(c, 10*time.Millisecond)
	<-released.Over
	play.Check(released.Err)
	s.Until(s.TTL/2, trying.Ended) // a client that is told of a loss releases in the background
	h, valid := trying.Stop(), next.Valid()
	switch {
	case h != nil:
		found(s, report.Safe, "%s ended the lock of B, and C had it.", why) // what that means, the judge says
		s.Both(next, h)
	case !valid:
		play.Check(errors.New("client B lost its lock by itself"))
	default:
		found(s, report.Safe, "%s ended nothing: B kept the lock. C asked for it %d times, and was refused each time.", why, trying.Tries)
	}
}

// asksTwice has a process ask for the lock that it has.
func asksTwice(s *play.Phase) {
	a := s.Worker()
	first, patient := s.Acquire(a), s.TTL/2
	second, err := a.TryAcquire(s.Name(), patient)
	if play.IsRefusal(err, history.ClassHeld) {
		second, err = a.Acquire(s.Name(), patient)
	}
	if err == nil {
		found(s, report.Safe, "A had the lock, asked again, and had it twice.")
		s.Both(first, second)
		return
	}
	if !play.IsRefusal(err, history.ClassTimedOut) {
		play.Check(err)
	}
	first.Release()
	found(s, report.Safe, "A's second attempt was refused at once, since somebody has the lock, and one that waited was given up in vain after %s.", text(patient))
	s.Acquire(a)
	found(s, report.Safe, "When A had released it, once, it could be had again.")
}
