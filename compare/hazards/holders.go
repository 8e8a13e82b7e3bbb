package hazards

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

// In the scripts of this file a holder works for too long, releases too late, asks again, or loses its lock to an operator.

func worksLong(s *play.Phase) {
	wa, wb := s.Worker(), s.Worker()
	a := s.Acquire(wa)
	waiting, work := s.Asks(wb), s.TTL*5/2
	if s.Until(work, waiting.Ended) {
		b := waiting.Got()
		s.Found(report.Safe, "A had held the lock for %s (TTL %s) when B got it too.", text(after(a.Event(history.Got).At, b)), text(s.TTL))
		s.Both(a, b)
		return
	}
	a.Update()
	released := history.Now()
	a.Release()
	b := waiting.Got()
	s.Found(report.Safe, "A worked for %s, 2.5 times its TTL. B waited, and got the lock %s after A began to release it.", text(work), text(after(released, b)))
	b.Update()
}

// stop stops A, and returns the hold of B, which waits for the lock; nil if B does not get it. meanwhile happens while A is stopped.
func stop(s *play.Phase, a, b *play.Worker, meanwhile play.Act) *play.Hold {
	s.Injected()
	stopped := history.Now()
	a.Stop()
	meanwhile(s)
	return takesOver(s, b, stopped, "A was stopped")
}

func nothing(*play.Phase) {}

// stoppedBeforeItWrites is losesItWhileStopped with a new worker, whose lock nobody removes.
func stoppedBeforeItWrites(s *play.Phase) { losesItWhileStopped(s, s.Worker(), nothing) }

// losesItWhileStopped stops A in the middle of its work, until B has the lock and writes. Then A resumes, and writes before it checks its lock.
func losesItWhileStopped(s *play.Phase, wa *play.Worker, meanwhile play.Act) {
	wb, a := s.Worker(), holds(s, wa)
	b := stop(s, wa, wb, meanwhile)
	if b == nil {
		return
	}
	b.Update()
	s.Wait(believed)
	resumed := history.Now()
	wa.Resume()
	s.Note("A resumes and writes")
	a.Update()
	class, said := toldSince(s, a, resumed)
	s.Healed()
	s.Found(class, "A resumed and wrote before it checked its lock. It %s.", said)
}

// stoppedBeforeItReleases stops A until B has the lock. Then A resumes and releases.
func stoppedBeforeItReleases(s *play.Phase) {
	a, b, c := s.Worker(), s.Worker(), s.Worker()
	older := holds(s, a)
	next := stop(s, a, b, nothing)
	if next == nil {
		return
	}
	next.Renewed() // the next renewal is farthest away now
	s.Note("A resumes and releases")
	a.Resume()
	s.Healed()
	enters(s, c, next, s.Releases(older), "A's late release")
}

// releaseHeldUp has A release. The network holds up A's requests from the n-th on until B has the lock, and then delivers them.
func releaseHeldUp(n int64) play.Act {
	return func(s *play.Phase) {
		a, b, c := s.Worker(), s.Worker(), s.Worker()
		older := s.Acquire(a)
		older.Renewed() // the next renewal is farthest away now
		s.Injected()
		var released *play.Task
		links := a.Endpoint.Links
		if n > 1 { // the delay lets the script count a request before it arrives
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
		next := takesOver(s, b, history.Now(), "A's release was delayed")
		if next == nil {
			return
		}
		next.Renewed()
		s.Note("A's delayed request arrives")
		arrive(restore)
		s.Healed()
		enters(s, c, next, released, "A's delayed release")
	}
}

// enters has C ask for the lock of next until another release has returned, and a while longer, and reports the outcome.
func enters(s *play.Phase, c *play.Worker, next *play.Hold, released *play.Task, why string) {
	trying := s.Tries(c, 10*time.Millisecond)
	<-released.Over
	play.Check(released.Err)
	s.Until(s.TTL/2, trying.Ended) // a client that is told of a loss releases in the background
	h, valid := trying.Stop(), next.Valid()
	switch {
	case h != nil:
		s.Found(report.Safe, "%s ended B's lock, and C got it.", why) // the judge classifies it
		s.Both(next, h)
	case !valid:
		play.Check(errors.New("client B lost its lock for another reason"))
	default:
		s.Found(report.Safe, "%s ended nothing: B kept the lock. C asked for it %d times and was refused each time.", why, trying.Tries)
	}
}

func asksTwice(s *play.Phase) {
	a := s.Worker()
	first, patient := s.Acquire(a), s.TTL/2
	second, err := a.TryAcquire(s.Name, patient)
	if play.IsRefusal(err, history.ClassHeld) {
		second, err = a.Acquire(s.Name, patient)
	}
	if err == nil {
		s.Found(report.Safe, "A held the lock, asked again, and got it a second time.")
		s.Both(first, second)
		return
	}
	if !play.IsRefusal(err, history.ClassTimedOut) {
		play.Check(err)
	}
	first.Release()
	s.Found(report.Safe, "A's second attempt was refused at once: the lock was held. An attempt that waited was given up after %s.", text(patient))
	s.Acquire(a)
	s.Found(report.Safe, "After A released the lock once, it was free again.")
}

// tampered removes A's lock at the server, and observes when A is told. Then it does so again while A is stopped.
func tampered(remove play.Act) play.Act {
	return func(s *play.Phase) {
		w := s.Worker()
		a := holds(s, w) // votes still on their way would restore A's lock
		begun := history.Now()
		remove(s)
		class, said := toldSince(s, a, begun)
		s.Found(class, "The lock was removed while A ran. A %s.", said)
		a.Release()
		losesItWhileStopped(s, w, remove)
	}
}

// articleDeleted has an operator delete the key of an article's lock.
func articleDeleted(s *play.Phase) {
	s.Note("the key is deleted")
	play.Must(s.Environment.Servers.(*environment.Redis).Do(s.Ctx, "DEL", "lock:"+s.Name))
}
