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

// trial is one run of a scenario: a phase with commanded workers, and what its script has found.
type trial struct {
	*play.Phase
	class    report.Class // the worst that was found
	observed []string
}

// found adds a sentence about what was seen.
func (p *trial) found(class report.Class, format string, args ...any) {
	p.observed = append(p.observed, fmt.Sprintf(format, args...))
	p.class = report.Worse(p.class, class)
}

// The times of scripts.
const (
	// lasting bounds the wait for what must happen.
	lasting = 20 * time.Second
	// holding is how long a holder has the lock before something happens, and believed how long two believe at least, so that it can be seen.
	holding, believed = 300 * time.Millisecond, 500 * time.Millisecond
	// patientTTL is for plays in which servers are replaced or restarted before a holder renews. That takes far less time, even on a busy machine.
	patientTTL = 30 * time.Second
)

// limit is how long a worker waits for a lock that should end with its TTL, or with its process.
func (p *trial) limit() time.Duration {
	if p.Environment.Local {
		return 3 * p.TTL
	}
	return min(5*p.TTL, lasting)
}

// bothWrite has two workers write that should believe they hold the lock. Then it waits until the older one is told, or until the overlap can be seen.
func (p *trial) bothWrite(older, newer *play.Hold) {
	p.Both(older, newer)
	p.disbelieves(older, believed)
}

// disbelieves waits until a worker no longer believes in its hold, for most at most.
func (p *trial) disbelieves(h *play.Hold, most time.Duration) {
	p.Until(most, func() bool { return !h.Valid() })
}

// acquire has a worker wait for the lock on name. It asks again when the server is too busy or away. Another holder is an error.
func (p *trial) acquire(w *play.Worker, name string, within time.Duration) (*play.Hold, error) {
	return w.AcquireAtLast(name, within, within)
}

// has has a worker acquire the lock, and holds keeps it for a while.
func (p *trial) has(w *play.Worker) *play.Hold { return play.Must(p.acquire(w, p.Name(), lasting)) }

func (p *trial) holds(w *play.Worker) *play.Hold {
	h := p.has(w)
	p.Wait(holding)
	return h
}

// warmUp has workers do what clients do only once, such as connecting.
func (p *trial) warmUp(all ...*play.Worker) {
	for _, w := range all {
		p.Warm(w).Release()
	}
}

// next has a worker wait for the lock after something has happened, says when it had the lock, and returns its hold. The hold is nil if the worker waited in vain:
// the lock is stuck then, unless somebody still believes in it.
func (p *trial) next(w *play.Worker, since history.Instant, what string) *play.Hold {
	h, err := p.acquire(w, p.Name(), p.limit())
	if err == nil {
		p.found(report.Safe, "%s had the lock %s after %s.", lane(w.Name), text(p.after(since, h)), what)
		return h
	}
	p.inVain(err, w, since, what)
	return nil
}

// inVain says that a worker did not get the lock, if err says so. Other errors end the run.
func (p *trial) inVain(err error, w *play.Worker, since history.Instant, what string) {
	if !taken(err) {
		play.Check(err)
	}
	took, class, why := history.Now().Sub(since), report.Stuck, "nobody held it any more"
	h := play.Must(newHistory(p.Events()))
	for _, s := range h.Spans {
		if s.Name == p.Name() && s.Until == h.End {
			class, why = report.Safe, lane(s.Worker)+" still held it"
		}
	}
	p.found(class, "%s after %s, %.1f times the TTL, %s had not got the lock: %s.", text(took), what, float64(took)/float64(p.TTL), lane(w.Name), why)
}

// taken says that a worker was refused because another one has the lock, or waited for it in vain.
func taken(err error) bool {
	return refusedFor(err, history.ClassHeld) || refusedFor(err, history.ClassTimedOut)
}

func refusedFor(err error, class history.Class) bool {
	refusal := new(play.AcquireError)
	return errors.As(err, &refusal) && refusal.Class == class
}

// after is how long after an instant a hold was acquired.
func (p *trial) after(since history.Instant, h *play.Hold) time.Duration {
	return h.Event(history.Got).At.Sub(since)
}

// toldSince waits until a worker knows of its loss, and says how long after an instant it did.
func (p *trial) toldSince(h *play.Hold, since history.Instant) (report.Class, string) {
	p.disbelieves(h, p.limit())
	told := h.Event(history.Told).At
	if told == 0 {
		return report.Misled, fmt.Sprintf("still believed in it %s later", text(p.limit()))
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

// text is a duration for people, in milliseconds, or in seconds with two digits after the point.
func text(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return "less than 1 ms"
	case d.Round(time.Millisecond) < time.Second:
		return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}
