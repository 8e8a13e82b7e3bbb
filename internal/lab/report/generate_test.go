package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// hostile is what no text should be, and any may.
const hostile = "<script>alert(1)</script> ]]> --> \" ' & </svg></title> {{.}} `x` | [a](b)\x00\x1b[31m\nline two \u202e é 漢字 =1+1"

const aRealRun = "a real run"

// generated are reports of shapes that the sample has not.
func generated(t testing.TB) map[string]*Report {
	t.Helper()
	full := func() *Report { return sample(t) }
	all := map[string]*Report{
		"empty": {Version: Version, Began: time.Unix(0, 0).UTC()},
		"many":  random(1, 30, 40),
		"few":   random(2, 2, 3),
	}
	if !testing.Short() { // its many pictures take their time
		all[aRealRun] = realRun(t)
	}
	costs := full()
	costs.Hazards, costs.Cells, costs.Missing = nil, nil, nil
	all["costs only"] = costs
	hazards := full()
	hazards.Costs = nil
	all["hazards only"] = hazards

	one := full()
	one.Subjects = []Subject{{Name: "redis-2", Title: "Redis", URL: "redis://user:xxxxx@a.rather.long.name.of.a.host.example.org:6379/3", Page: "redis"}}
	one.Hazards, one.Cells = nil, nil
	one.Costs = one.Costs[1:2]
	one.Costs[0].Subject = "redis-2"
	all["one subject"] = one

	none := full() // everything was tried, and nothing came of it
	for i := range none.Cells {
		none.Cells[i].Runs = []Run{{}}
	}
	for i := range none.Costs {
		c := &none.Costs[i]
		*c = Costs{Subject: c.Subject, RoundTrip: &Quantiles{}, Cycle: &Cycle{}, HandOff: &HandOff{}, Takeover: &Takeover{}, Failover: &Failover{},
			Contention: []Contention{{}, {Clients: 1}}, Waiters: []Waiters{{}}}
	}
	all["no samples"] = none

	huge := full()
	for i := range huge.Costs {
		c := &huge.Costs[i]
		for _, q := range c.quantiles() {
			for _, v := range []*float64{&q.Min, &q.P25, &q.P50, &q.P75, &q.P90, &q.P99, &q.Max} {
				*v *= 1e12
			}
		}
		for j := range c.Contention {
			c.Contention[j].PerSecond = Spread{3, 1e18, 1e-9, 1e300}
		}
	}
	for i := range huge.Cells {
		for j := range huge.Cells[i].Runs {
			huge.Cells[i].Runs[j].Took = 1e13
		}
	}
	all["huge"] = huge

	evil := full()
	poison(evil)
	all["hostile"] = evil
	return all
}

// poison puts the hostile text into every field.
func poison(r *Report) {
	r.Machine = Machine{OS: hostile, CPU: hostile, Go: hostile, Lockport: hostile}
	for i := range r.Missing {
		r.Missing[i] = Missing{[]string{hostile}, hostile, hostile}
	}
	name := func(s string) string { return s + hostile }
	for i := range r.Subjects {
		s := &r.Subjects[i]
		*s = Subject{name(s.Name), name(s.Title), hostile, hostile, hostile}
	}
	for i := range r.Hazards {
		h := &r.Hazards[i]
		*h = Hazard{name(h.ID), hostile, hostile, hostile, []string{hostile}}
	}
	for i := range r.Cells {
		c := &r.Cells[i]
		c.Hazard, c.Subject, c.Variant, c.Setup, c.Lock, c.Observed, c.LateWrite = name(c.Hazard), name(c.Subject), fmt.Sprint(c.Variant, i, hostile), hostile, hostile, hostile, hostile
		if c.NotRun != "" {
			c.NotRun = hostile
		} else {
			c.Class = Class(name(string(c.Class)))
		}
		for j := range c.Runs {
			n := &c.Runs[j]
			n.Class, n.Observed = Class(hostile), hostile
			for k := range n.Lanes {
				l := &n.Lanes[k]
				l.Client = name(l.Client)
				l.Cut = []Band{{1, 500, hostile}}
				for m := range l.Spans {
					l.Spans[m].Ending = hostile
				}
			}
			for k := range n.Faults {
				n.Faults[k].What = hostile
			}
			for k := range n.Marks {
				n.Marks[k].What = fmt.Sprint(k, hostile)
			}
			for k := range n.Overlaps {
				n.Overlaps[k].Older, n.Overlaps[k].Newer = name(n.Overlaps[k].Older), name(n.Overlaps[k].Newer)
			}
		}
	}
	for i := range r.Costs {
		c := &r.Costs[i]
		c.Subject, c.Setup, c.Question = name(c.Subject), hostile, hostile
		c.NotRun = map[string]string{hostile: hostile}
		if c.Failover != nil {
			c.Failover.What = hostile
		}
		for j := range c.Waiters {
			c.Waiters[j].Article = hostile
		}
	}
}

// random is a report with runs of up to so many clients and marks, with names of all lengths, at instants that often meet.
func random(seed uint64, clients, marks int) *Report {
	rnd := rand.New(rand.NewPCG(seed, seed))
	word := func() string { return strings.TrimSpace(strings.Repeat("a word ", 1+rnd.IntN(8))) }
	r := &Report{Version: Version, Began: time.Unix(1e9, 0).UTC(), Subjects: []Subject{{Name: "redis", Title: "Redis"}, {Name: "mine", Title: word()}}}
	for i := range 12 {
		n := Run{Class: Unsafe, Observed: word(), Took: 100 + rnd.Float64()*20000}
		at := func() float64 {
			if rnd.IntN(3) == 0 {
				return math.Round(rnd.Float64()*4) / 4 * n.Took
			}
			return rnd.Float64() * n.Took
		}
		band := func() Band {
			from := at()
			return Band{from, math.Min(n.Took, from+at()/4), word()}
		}
		for j := range 1 + rnd.IntN(clients) {
			l := Lane{Client: fmt.Sprintf("%c%d", 'A'+rune(j%26), j)}
			if rnd.IntN(9) == 0 {
				l.Client = word()
			}
			for t := at() / 4; t < n.Took; {
				s := Span{Asked: t, Held: rnd.IntN(4) > 0, Token: Token(rnd.Uint64() >> rnd.IntN(64)), Ending: word()}
				s.Got = t + at()/9
				s.Until = s.Got + at()/6
				t = s.Until + at()/9
				l.Spans = append(l.Spans, s)
			}
			for range rnd.IntN(40) {
				l.Writes = append(l.Writes, Write{at(), rnd.IntN(4) == 0, rnd.IntN(3) == 0})
			}
			for range rnd.IntN(3) {
				l.Stopped, l.Cut = append(l.Stopped, band()), append(l.Cut, band())
			}
			if rnd.IntN(4) == 0 {
				l.Killed = at()
			}
			n.Lanes = append(n.Lanes, l)
		}
		for range rnd.IntN(marks) {
			n.Marks = append(n.Marks, Mark{at(), word()})
		}
		for range rnd.IntN(4) {
			n.Faults = append(n.Faults, band())
		}
		for range rnd.IntN(9) {
			b := band()
			n.Overlaps = append(n.Overlaps, Overlap{b.From, b.To, n.Lanes[rnd.IntN(len(n.Lanes))].Client, n.Lanes[rnd.IntN(len(n.Lanes))].Client,
				[2]Token{Token(rnd.Uint64() >> 30), Token(rnd.Uint64() >> 20)}})
		}
		r.Cells = append(r.Cells, Cell{Hazard: fmt.Sprintf("H%d", i+1), Subject: []string{"redis", "mine"}[rnd.IntN(2)], Class: Classes()[rnd.IntN(7)], Seen: 1, Of: 1,
			Setup: word(), Observed: word(), Runs: []Run{n}})
		r.Hazards = append(r.Hazards, Hazard{ID: fmt.Sprintf("H%d", i+1), Title: word(), Happens: word(), Do: word()})
	}
	return r
}
