package faults

import (
	"fmt"
	"time"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
)

// Verdict is what a phase has shown.
type Verdict struct {
	History *history.History
	// Figures are what was measured.
	Figures history.Figures
	// Overlaps are two who believed to hold one lock.
	Overlaps []history.Overlap
	// Breaches are what must not be, whatever is stated of the cell, or what contradicts it, each a message for people.
	Breaches []string
}

// Seen says that two believed to hold one lock.
func (v *Verdict) Seen() bool { return len(v.Overlaps) > 0 }

// Judge judges a phase by belief, by the tokens and by the registers, against what is stated of its cell. Whether an unsafe cell has shown
// that it is, its plays together say.
func Judge(p *play.Played) (*Verdict, error) {
	h, err := history.NewHistory(p.Events)
	if err != nil {
		return nil, err
	}
	v := &Verdict{History: h, Figures: history.Measure(h, p.Environment.Margin), Overlaps: h.Overlaps(), Breaches: p.Stuck}
	if p.Cell.Outcome.IsSafe() {
		for _, o := range v.Overlaps {
			v.breach("the cell is stated to be %s, and two believed to hold one lock:\n%s", p.Cell.Outcome, o.Describe(h))
		}
	}
	if p.Cell.Outcome == play.Unavailable {
		v.unavailable(p.Environment)
	}
	v.inVain(p)
	v.early(p)
	v.deadlines(p.Environment)
	if p.Environment.Tokens && p.Cell.Outcome != play.Unsafe {
		for _, t := range h.TokenFaults() {
			v.breach("tokens must grow in the order of grants: %s", t.Describe(h))
		}
		if p.Lost != 0 {
			v.breach("%d updates were lost although a fence guarded them", p.Lost)
		}
	}
	v.believed()
	v.slow(p.Environment)
	return v, nil
}

func (v *Verdict) breach(format string, args ...any) {
	v.Breaches = append(v.Breaches, fmt.Sprintf(format, args...))
}

// believed looks for holds that were valid past their deadline.
func (v *Verdict) believed() {
	for _, e := range v.History.Events {
		if (e.Kind == history.Believed || e.Kind == history.Checked) && e.Valid && e.Deadline != 0 && e.At > e.Deadline {
			v.breach("%s: Valid was true %v after the deadline of %s", e.About(), e.At.Sub(e.Deadline), v.History.Since(e.Deadline))
		}
	}
}

// slow looks for what took far longer than it is stated to.
func (v *Verdict) slow(a *environment.Environment) {
	f := &v.Figures
	takeover := a.TTL + time.Second
	if a.Sessions {
		takeover = time.Second // who does not wait in the server's queue asks so often
	}
	late := f.LateReturn.Quantiles()
	for _, s := range []struct {
		what           string
		worst, allowed time.Duration
	}{
		{"an acquisition returned after the end of its context", late.Max, time.Second},
		{"99 in 100 acquisitions returned after the end of their context", late.P99, 100 * time.Millisecond},
		{"a holder was told of the end of its hold after its deadline", f.TellingAfter.Quantiles().Max, a.Margin},
		{"a holder was told that its lock was removed", f.RemovalNotice.Quantiles().Max, a.RemovalNotice},
		{"the lock of a process that was killed was granted again", f.Takeover.Quantiles().Max, takeover},
	} {
		if s.allowed > 0 && s.worst > play.Patience*s.allowed {
			v.breach("%s within %v, which is more than %d times the %v that are stated", s.what, s.worst, play.Patience, s.allowed)
		}
	}
}
