package hazards

import (
	"fmt"
	"time"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

// Steps that many scripts share.

// holding is how long a holder has the lock before something happens. believed is how long an overlap lasts at least, so that people see it.
const holding, believed = 300 * time.Millisecond, 500 * time.Millisecond

// limit is how long a worker waits for a lock that should end with its TTL, or with its process.
func limit(s *play.Phase) time.Duration {
	if s.Environment.Local {
		return 3 * s.TTL
	}
	return min(5*s.TTL, play.MaxWait)
}

// holds has a worker acquire the lock, and keep it for a while.
func holds(s *play.Phase, w *play.Worker) *play.Hold {
	h := s.Acquire(w)
	s.Wait(holding)
	return h
}

// takesOver has a worker wait for the lock after what happened, reports when it got the lock, and returns its hold. The hold is nil if it did not get
// the lock: then the lock is stuck, unless somebody still believes in it.
func takesOver(s *play.Phase, w *play.Worker, since history.Instant, what string) *play.Hold {
	h, err := w.AcquireAtLast(s.Name, limit(s), limit(s))
	if err == nil {
		s.Found(report.Safe, "%s got the lock %s after %s.", clientName(w.Name), text(after(since, h)), what)
		return h
	}
	notAcquired(s, err, w, since, what)
	return nil
}

// notAcquired reports that a worker did not get the lock, if err says so. Other errors end the run.
func notAcquired(s *play.Phase, err error, w *play.Worker, since history.Instant, what string) {
	if !taken(err) {
		play.Check(err)
	}
	took, class, why := history.Now().Sub(since), report.Stuck, "nobody held it any more"
	h := play.Must(history.NewHistory(s.Events()))
	for _, hold := range h.Spans {
		if hold.Name == s.Name && hold.Until == h.End {
			class, why = report.Safe, clientName(hold.Worker)+" still held it"
		}
	}
	s.Found(class, "%s (%.1f TTLs) after %s, %s still did not have the lock: %s.", text(took), float64(took)/float64(s.TTL), what, clientName(w.Name), why)
}

// taken says that a worker was refused because another one has the lock, or timed out waiting for it.
func taken(err error) bool { return play.IsRefusal(err, history.ClassHeld, history.ClassTimedOut) }

// after is the time from an instant until a hold was acquired.
func after(since history.Instant, h *play.Hold) time.Duration {
	return h.Event(history.Got).At.Sub(since)
}

// toldSince waits until a worker knows of its loss, and says how long after an instant that was.
func toldSince(s *play.Phase, h *play.Hold, since history.Instant) (report.Class, string) {
	s.Until(limit(s), func() bool { return !h.Valid() })
	told := h.Event(history.Told).At
	if told == 0 {
		return report.Misled, fmt.Sprintf("still believed it held the lock %s later", text(limit(s)))
	}
	return report.Safe, fmt.Sprintf("was told of the loss after %s", text(max(0, told.Sub(since))))
}

// Actions on links. After drop and restore they work again: drop loses delayed data, restore delivers it.
var (
	freeze  = (*faultproxy.Proxy).Freeze
	sever   = (*faultproxy.Proxy).Cut
	drop    = (*faultproxy.Proxy).DropHeld
	restore = (*faultproxy.Proxy).Restore
)

func text(d time.Duration) string { return report.Micros(float64(d.Microseconds())) }
