package faults

import (
	"fmt"
	"time"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
)

// timing is a measured duration with a stated bound.
type timing struct {
	Name string
	of   func(*history.Figures) *history.Samples
	// stated is the bound under a fault (docs/guarantees.md). A test allows [play.Patience] times that.
	stated func(e *environment.Environment, c *play.Cell) time.Duration
}

const (
	// promptly is how long after the end of their contexts 99 in 100 acquisitions have returned.
	promptly = 100 * time.Millisecond
	// sessionTakeover is the bound for a waiter to get a killed process's lock, where the server sees the session end.
	sessionTakeover = 100 * time.Millisecond
)

var timings = []timing{
	{"killed holder", func(f *history.Figures) *history.Samples { return &f.Takeover }, func(e *environment.Environment, c *play.Cell) time.Duration {
		if e.Sessions {
			return max(sessionTakeover, c.Recovery)
		}
		return max(e.TTL+time.Second, c.Recovery)
	}},
	{"recovery", func(f *history.Figures) *history.Samples { return &f.Recovery },
		func(e *environment.Environment, c *play.Cell) time.Duration { return c.RecoveryIn(e) }},
	{"told of removal", func(f *history.Figures) *history.Samples { return &f.RemovalNotice },
		func(e *environment.Environment, _ *play.Cell) time.Duration { return e.RemovalNotice }},
	{"told of silence", func(f *history.Figures) *history.Samples { return &f.TellingAfter },
		func(e *environment.Environment, _ *play.Cell) time.Duration { return e.Margin }},
	{"late return", func(f *history.Figures) *history.Samples { return &f.LateReturn },
		func(*environment.Environment, *play.Cell) time.Duration { return history.Hanging }},
}

// In formats the quantiles of the timing.
func (t timing) In(f history.Figures) string {
	q := t.of(&f).Quantiles()
	if q.N == 0 {
		return "–"
	}
	return fmt.Sprintf("%v/%v/%v (%s)", rounded(q.P50), rounded(q.P99), rounded(q.Max), history.Thousands(q.N))
}

// rounded rounds a duration to a tenth of a millisecond, or to a millisecond from 10 ms on.
func rounded(d time.Duration) time.Duration {
	if d < 10*time.Millisecond {
		return d.Round(100 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}

// exceeded lists the timings of a cell that are longer than patience times their bound.
func exceeded(f *history.Figures, e *environment.Environment, c *play.Cell, patience time.Duration) (all []string) {
	for _, t := range timings {
		worst, stated := t.of(f).Quantiles().Max, t.stated(e, c)
		if patience > 1 && t.Name == "killed holder" && e.Sessions {
			stated = max(stated, time.Second) // a waiter outside the server's queue polls this often
		}
		if worst > patience*stated {
			all = append(all, fmt.Sprintf("%s: %v (stated: %v)", t.Name, rounded(worst), rounded(stated)))
		}
	}
	return all
}
