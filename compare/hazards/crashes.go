package hazards

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

// The scripts of this file kill clients.

// dies has A acquire the lock, kills it, and returns the time of the kill.
func dies(s *play.Phase, a *play.Worker) history.Instant {
	holds(s, a)
	s.Injected()
	s.Note("A is killed")
	killed := history.Now()
	a.Kill()
	return killed
}

func holderKilled(s *play.Phase) {
	a, b := s.Worker(), s.Worker()
	takesOver(s, b, dies(s, a), "A was killed")
}

func holderKilledWhileOthersTry(s *play.Phase) {
	a, b := s.Worker(), s.Worker()
	killed, ttl := dies(s, a), s.TTL
	trying := s.Tries(b, ttl/8)
	s.Until(limit(s), trying.Ended)
	if h := trying.Stop(); h != nil {
		s.Found(report.Safe, "B got the lock %s after A was killed, on attempt %d.", text(after(killed, h)), trying.Tries)
		return
	}
	notAcquired(s, trying.Err, b, killed, fmt.Sprintf("A was killed and B tried %d times", trying.Tries))
	s.Wait(ttl * 3 / 2)
	if _, err := b.TryAcquire(s.Name, ttl); err == nil {
		s.Found(report.Stuck, "After B stopped asking for %s, the lock was free: each attempt had extended it.", text(ttl*3/2))
	}
}

// claimantsKilled kills three workers during their claims. at waits for the k-th worker's moment, and describes it; empty if the claim succeeded.
func claimantsKilled(at func(s *play.Phase, w *play.Worker, k int) string) play.Act {
	return func(s *play.Phase) {
		a, b := s.Worker(), s.Worker()
		for k := 1; k <= 3; k++ {
			if k > 1 {
				a = s.Worker()
			}
			moment := at(s, a, k)
			if moment == "" && k == 1 {
				play.Check(errors.New("no claim was interrupted"))
			} else if moment == "" {
				return
			}
			s.Injected()
			s.Note("%s is killed %s", a.Name, moment)
			killed := history.Now()
			a.Kill()
			h := takesOver(s, b, killed, clientName(a.Name)+" was killed "+moment)
			if h == nil {
				return
			}
			s.Healed()
			h.Release()
		}
	}
}

// afterRequest cuts off a worker after request k of its claim.
func afterRequest(s *play.Phase, w *play.Worker, k int) string {
	s.Warm(w)
	var severed []<-chan struct{}
	for _, l := range w.Endpoint.Links {
		severed = append(severed, l.SeverAfter(k))
	}
	claim := s.Asks(w)
	s.Until(limit(s), func() bool { return claim.Ended() || slices.ContainsFunc(severed, play.Closed) })
	s.Until(50*time.Millisecond, claim.Ended) // other servers are asked at the same time, or not at all
	if claim.Ended() && claim.Err == nil {
		w.Endpoint.Links.Each(restore)
		claim.Hold.Release()
		return ""
	}
	s.Apart(w, "cut off", w.Endpoint.Links, sever)
	return fmt.Sprintf("during its claim, after request %d", k)
}

// whileAsking waits until a worker asks for the lock, or has just got it.
func whileAsking(s *play.Phase, w *play.Worker, k int) string {
	s.Asks(w)
	s.Wait(time.Duration(k-1) * 2 * time.Millisecond)
	return "while it asked, or just after"
}
