package hazards

import (
	"fmt"
	"time"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

// The steps of this file are those of many scripts.

const (
	// lasting bounds the wait for what must happen.
	lasting = 20 * time.Second
	// holding is how long a holder has the lock before something happens, and believed how long two believe at least, so that it can be seen.
	holding, believed = 300 * time.Millisecond, 500 * time.Millisecond
	// patientTTL is for plays in which servers are replaced or restarted before a holder renews. That takes far less time, even on a busy machine.
	patientTTL = 30 * time.Second
)

// found adds a sentence about what was seen to the history.
func found(s *play.Phase, class report.Class, format string, args ...any) {
	s.Found(history.Class(class), format, args...)
}

// limit is how long a worker waits for a lock that should end with its TTL, or with its process.
func limit(s *play.Phase) time.Duration {
	if s.Environment.Local {
		return 3 * s.TTL
	}
	return min(5*s.TTL, lasting)
}

// holds has a worker acquire the lock, and keep it for a while.
func holds(s *play.Phase, w *play.Worker) *play.Hold {
	h := s.Acquire(w)
	s.Wait(holding)
	return h
}

// next has a worker wait for the lock after something has happened, says when it had the lock, and returns its hold. The hold is nil if the worker waited in vain:
// the lock is stuck then, unless somebody still believes in it.
func next(s *play.Phase, w *play.Worker, since history.Instant, what string) *play.Hold {
	h, err := w.AcquireAtLast(s.Name(), limit(s), limit(s))
	if err == nil {
		found(s, report.Safe, "%s had the lock %s after %s.", lane(w.Name), text(after(since, h)), what)
		return h
	}
	inVain(s, err, w, since, what)
	return nil
}

// inVain says that a worker did not get the lock, if err says so. Other errors end the run.
func inVain(s *play.Phase, err error, w *play.Worker, since history.Instant, what string) {
	if !taken(err) {
		play.Check(err)
	}
	took, class, why := history.Now().Sub(since), report.Stuck, "nobody held it any more"
	h := play.Must(history.NewHistory(s.Events()))
	for _, hold := range h.Spans {
		if hold.Name == s.Name() && hold.Until == h.End {
			class, why = report.Safe, lane(hold.Worker)+" still held it"
		}
	}
	found(s, class, "%s after %s, %.1f times the TTL, %s had not got the lock: %s.", text(took), what, float64(took)/float64(s.TTL), lane(w.Name), why)
}

// taken says that a worker was refused because another one has the lock, or waited for it in vain.
func taken(err error) bool { return play.IsRefusal(err, history.ClassHeld, history.ClassTimedOut) }

// after is how long after an instant a hold was acquired.
func after(since history.Instant, h *play.Hold) time.Duration {
	return h.Event(history.Got).At.Sub(since)
}

// toldSince waits until a worker knows of its loss, and says how long after an instant it did.
func toldSince(s *play.Phase, h *play.Hold, since history.Instant) (report.Class, string) {
	s.Until(limit(s), func() bool { return !h.Valid() })
	told := h.Event(history.Told).At
	if told == 0 {
		return report.Misled, fmt.Sprintf("still believed in it %s later", text(limit(s)))
	}
	return report.Safe, fmt.Sprintf("was told of its loss after %s", text(max(0, told.Sub(since))))
}

// What is done to links. After drop they work again, and what was on its way is lost; after restore it arrives.
var (
	freeze  = (*faultproxy.Proxy).Freeze
	sever   = (*faultproxy.Proxy).Cut
	drop    = (*faultproxy.Proxy).DropHeld
	restore = (*faultproxy.Proxy).Restore
)

// text is a duration for people.
func text(d time.Duration) string { return report.Micros(float64(d.Microseconds())) }
