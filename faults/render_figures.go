package faults

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
)

// timing is a measured duration, and what is stated of it.
type timing struct {
	name string
	of   func(*history.Figures) *history.Samples
	// worst is what none may exceed under a fault, 0 for no bound; p99, if not 0, is what 99 in 100 of an arrangement may not.
	worst func(*Environment, *play.Cell) time.Duration
	p99   time.Duration
}

const (
	// promptly is how long after the end of their contexts 99 in 100 acquisitions have returned.
	promptly = 100 * time.Millisecond
	// sessionTakeover is within which time a waiter has the lock of a process that was killed, where the server sees its session end.
	sessionTakeover = 100 * time.Millisecond
)

var timings = []timing{
	{name: "lock of a killed holder", of: func(f *history.Figures) *history.Samples { return &f.Takeover }, worst: takeover},
	{name: "recovery", of: func(f *history.Figures) *history.Samples { return &f.Recovery }, worst: func(a *Environment, c *play.Cell) time.Duration { return c.RecoveryIn(&a.Environment) }},
	{name: "told of removal", of: func(f *history.Figures) *history.Samples { return &f.RemovalNotice }, worst: func(a *Environment, _ *play.Cell) time.Duration { return a.RemovalNotice }},
	{name: "told of silence", of: func(f *history.Figures) *history.Samples { return &f.TellingAfter }, worst: func(a *Environment, _ *play.Cell) time.Duration { return a.Margin }},
	{name: "late return", of: func(f *history.Figures) *history.Samples { return &f.LateReturn }, p99: promptly, worst: func(*Environment, *play.Cell) time.Duration { return history.Hanging }},
}

// takeover is within which time a waiter has the lock of a process that was killed, unless it is stated that the fault makes it last longer.
func takeover(a *Environment, c *play.Cell) time.Duration {
	bound := a.TTL + time.Second
	if a.Sessions {
		bound = sessionTakeover
	}
	return max(bound, c.Recovery)
}

// figures writes what was measured, how, and what of it is not as it must be.
func (p *page) figures() {
	p.heading(measuredHeading)
	if !p.ran {
		p.out.WriteString("Not run.\n\n")
		return
	}
	p.run()
	misses := slices.Concat(p.disproved(), p.counts(), p.times())
	if len(misses) == 0 {
		paragraph(&p.out, "No figure misses what is stated.")
		return
	}
	p.out.WriteString("**Missed:**\n\n")
	for _, text := range misses {
		item(&p.out, "%s", text)
	}
	p.out.WriteString("\n")
}

// run writes how the figures were taken.
func (p *page) run() {
	r := &p.measured.Run
	holds := 0
	for _, f := range p.measured.Arrangements {
		holds += f.Acquisitions
	}
	took := r.Duration
	if d, err := time.ParseDuration(took); err == nil {
		took = lasts(d)
	}
	var versions []string
	for _, of := range slices.Sorted(maps.Keys(r.Versions)) {
		versions = append(versions, of+" "+strings.TrimPrefix(r.Versions[of], of)) // Go says "go1.26" of itself
	}
	text := fmt.Sprintf("One run of %s with the seed %d: %s, %s, %s, on %s", took, r.Seed, count(r.Phases, "phase"), count(r.Faults, "fault"), count(holds, "acquisition"), r.Machine)
	if len(versions) > 0 {
		text += "; " + list(versions)
	}
	text += "."
	if gone := p.gone(); len(gone) > 0 {
		text += " It knew faults that are stated no more: " + list(gone) + "."
	}
	paragraph(&p.out, "%s", text)
}

// gone are the cells that were measured and do not exist.
func (p *page) gone() []string {
	known := make(map[string]bool)
	for i := range p.arrangements {
		a := &p.arrangements[i]
		for j := range a.Cells {
			known[CellKey(&a.Environment, &a.Cells[j])] = true
		}
	}
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(p.measured.Cells)) {
		if !known[key] {
			keys = append(keys, key)
		}
	}
	return keys
}

// disproved are the cells in which something else was seen than is stated.
func (p *page) disproved() (misses []string) {
	for i := range p.arrangements {
		a := &p.arrangements[i]
		for j := range a.Cells {
			c := &a.Cells[j]
			if f, ran := p.of(a, c); ran && disproved(c, &f) {
				misses = append(misses, fmt.Sprintf("%s, %s: stated to be %s, and two believed in %s phases.", a.link(), c.Fault, c.Outcome, part(f.Overlapped, f.Phases)))
			}
		}
	}
	return misses
}

// rising are the figures of the cells of a in which tokens must rise: all that are not stated to be unsafe.
func (p *page) rising(a *Environment) (sum history.Figures) {
	for i := range a.Cells {
		if c := &a.Cells[i]; c.Outcome != play.Unsafe {
			f, _ := p.of(a, c)
			sum.Add(f)
		}
	}
	return sum
}

// counts writes the table of what must not happen, or must always, and returns what did not keep to that.
func (p *page) counts() (misses []string) {
	paragraph(&p.out, "What must always be so:")
	item(&p.out, "**overlaps**: in no phase of a safe or unavailable fault did two believe to hold one lock;")
	item(&p.out, "**bad tokens**: none came twice, or fell (but under faults that are stated to be unsafe, which are not counted);")
	item(&p.out, "**lost, fenced**: no update was lost of a register that a [fence](fencing.md) guards (again, but under unsafe faults). **Lost, bare** "+
		"are those that the same register loses without one, which is what the faults cost who has locks alone: there is no bound;")
	item(&p.out, "**silence told**: the holder of a lock of which the server was not heard was told before the last renewal sent + TTL, always;")
	item(&p.out, "**first looks right**: after a pause past the deadline the first `Valid` was false, always;")
	item(&p.out, "**hung**: no acquisition returned later than a second after its context's end.")
	p.out.WriteString("\n")
	t := table{numbers: 1}
	t.row("arrangement", "holds", "overlaps", "bad tokens", "lost, fenced", "lost, bare", "silence told", "first looks right", "hung")
	for i := range p.arrangements {
		a := &p.arrangements[i]
		f, ran := p.measured.Arrangements[a.Name]
		if !ran {
			continue
		}
		cells := []string{a.link(), history.Thousands(f.Acquisitions)}
		add := func(text, what string, bad bool) {
			cells = append(cells, missed(text, bad))
			if bad {
				misses = append(misses, fmt.Sprintf("%s: %s %s.", a.link(), text, what))
			}
		}
		overlaps, phases := p.safeOverlaps(a)
		tokens, lost := "–", "–"
		var rising history.Figures
		if a.Tokens {
			rising = p.rising(a)
			tokens, lost = part(rising.TokenFaults, rising.Acquisitions), part(rising.LostFenced, int64(rising.Wrote))
		}
		cells = append(cells, missed(part(overlaps, phases), overlaps > 0)) // which faults these are, is told as what is disproved
		add(tokens, "tokens came twice or fell", rising.TokenFaults > 0)
		add(lost, "updates were lost behind the fence", rising.LostFenced > 0)
		cells = append(cells, history.Thousands(f.LostBare))
		add(part(f.Silent-f.SilentLate, f.Silent), "silences were told in time", f.SilentLate > 0)
		add(part(f.Paused-f.PausedValid, f.Paused), "first looks after a pause were right", f.PausedValid > 0)
		add(history.Thousands(f.Hung), "acquisitions hung", f.Hung > 0)
		t.row(cells...)
	}
	t.write(&p.out)
	return misses
}

// safeOverlaps is in how many phases there was an overlap, of the cells of a that are stated to have none.
func (p *page) safeOverlaps(a *Environment) (overlapped, phases int) {
	for i := range a.Cells {
		if c := &a.Cells[i]; c.Outcome.IsSafe() {
			f, _ := p.of(a, c)
			overlapped += f.Overlapped
			phases += f.Phases
		}
	}
	return overlapped, phases
}

// times writes the table of durations, and returns those that exceed what is stated.
func (p *page) times() (misses []string) {
	paragraph(&p.out, "How long it took, in milliseconds: `50 / 180 / 210 ≤ 250 (1,000)` is that of 1,000 times half took no longer than 50 ms, 99 in 100 no longer than 180 ms, and "+
		"none longer than 210 ms, where 250 ms are stated. ✗ is where a bound was missed, and what missed it is bold.")
	item(&p.out, "**lock of a killed holder**: from kill -9 until another worker had the lock. Three holders are killed one after the other, so that who was next may have been killed too, and nobody may have been waiting;")
	item(&p.out, "**recovery**: from the end of a fault until anybody acquired a lock (where there are several bounds, here and above, they are those of different faults);")
	item(&p.out, "**told of removal**: from the removal of a lock at a server that could be reached until the holder was told;")
	item(&p.out, "**told of silence**: from the deadline of a lock of which the server was not heard until the holder was told;")
	item(&p.out, "**late return**: from the end of its context until `Acquire` returned; one bound is for 99 in 100, and one for all.")
	p.out.WriteString("\n")
	t := table{numbers: 1}
	head := []string{"arrangement"}
	for i := range timings {
		head = append(head, timings[i].name)
	}
	t.row(head...)
	for i := range p.arrangements {
		a := &p.arrangements[i]
		f, ran := p.measured.Arrangements[a.Name]
		if !ran {
			continue
		}
		cells := []string{a.link()}
		for j := range timings {
			text, missing := p.time(a, &timings[j], timings[j].of(&f).Quantiles())
			cells = append(cells, text)
			if len(missing) > 0 {
				misses = append(misses, fmt.Sprintf("%s, %s: %s.", a.link(), timings[j].name, list(missing)))
			}
		}
		t.row(cells...)
	}
	t.write(&p.out)
	return misses
}

// time is a cell of the table of durations, and what in it exceeds what is stated.
func (p *page) time(a *Environment, of *timing, q history.Quantiles) (text string, misses []string) {
	if q.N == 0 {
		return "–", nil
	}
	var bounds []time.Duration // of the faults under which there were any
	for i := range a.Cells {
		c := &a.Cells[i]
		f, _ := p.of(a, c)
		at, bound := of.of(&f).Quantiles(), of.worst(a, c)
		if at.N == 0 || bound == 0 {
			continue
		}
		bounds = append(bounds, bound)
		if at.Max > bound {
			misses = append(misses, fmt.Sprintf("up to %s ms under %s (stated: %s ms)", inMilliseconds(at.Max), c.Fault, inMilliseconds(bound)))
		}
	}
	slices.Sort(bounds)
	bounds = slices.Compact(bounds)
	worst, most := len(misses) > 0, of.p99 // most is what most of them must not exceed
	switch {
	case of.p99 > 0:
		bounds = append([]time.Duration{of.p99}, bounds...)
		if q.P99 > of.p99 {
			misses = append(misses, fmt.Sprintf("%s ms for 99 in 100 (stated: %s ms)", inMilliseconds(q.P99), inMilliseconds(of.p99)))
		}
	case len(bounds) > 0:
		most = bounds[len(bounds)-1]
	}
	bold := func(d time.Duration, exceeds bool) string {
		if exceeds {
			return "**" + inMilliseconds(d) + "**"
		}
		return inMilliseconds(d)
	}
	text = bold(q.P50, most > 0 && q.P50 > most) + " / " + bold(q.P99, most > 0 && q.P99 > most) + " / " + bold(q.Max, worst)
	for i, b := range bounds {
		text += [...]string{" ≤ ", ", "}[min(i, 1)] + inMilliseconds(b)
	}
	if len(misses) > 0 {
		text += " ✗"
	}
	return text + fmt.Sprintf(" (%s)", history.Thousands(q.N)), misses
}
