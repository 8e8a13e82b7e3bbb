// Package costs measures what locks cost, on servers of our own or on a user's: an uncontended cycle against the bare round trip, contention by many
// clients of several processes, hand-off, takeover after the death of a holder, and the load of waiting clients.
//
// The scenarios are those of package measure. One runs at a time, in turns with bare round trips, since a machine is not equally fast at all times: ratios
// compare what was measured within a turn.
package costs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lockport/lockport/internal/lab/measure"
	"github.com/lockport/lockport/internal/lab/report"
	"github.com/lockport/lockport/internal/lab/servers"
)

// Options say what is measured, and how. The zero value is the quick set of everything on servers of our own.
type Options struct {
	// Full measures longer and oftener, and with more numbers of clients.
	Full bool
	// URLs are a user's own servers. What would do them harm is not measured then: no server is killed. Names are of our own ("lockport-compare-…"), and
	// everything is released at the end; what stays for a while by design, such as counters of tokens, is on the backend's page. None: servers of our own.
	URLs []string
	// Match chooses scenarios, see [Scenarios], and subjects by name; nil: all.
	Match func(scenario, subject string) bool
	// Progress, if not nil, is told what begins, and how much of how much is done. It is called from one goroutine at a time.
	Progress func(done, total int, what string)
}

// Scenarios are the names of what is measured.
func Scenarios() (names []string) {
	for _, s := range scenarios {
		names = append(names, s.name)
	}
	return names
}

// Run measures one subject after the other. It returns what was seen, of what, and which servers are not installed. A URL that cannot be opened is an
// error before anything is measured. A failure on the way is noted in Costs.NotRun, and the rest goes on. When ctx ends, Run returns its error within a few
// seconds: all processes have ended, and locks are released. Its workers are this binary again: see [WorkerMain].
func Run(ctx context.Context, o Options) ([]report.Costs, []report.Subject, []report.Missing, error) {
	r := &runner{Options: o, plan: quick, subjects: ours}
	if o.Full {
		r.plan = full
	}
	var err error
	if len(o.URLs) > 0 {
		r.subjects, err = theirs(ctx, o.URLs)
	}
	if err == nil {
		err = r.run(ctx)
	}
	return r.costs, r.seen, r.missing, err
}

// runner measures one subject after the other.
type runner struct {
	Options
	plan     plan
	subjects []subject

	costs       []report.Costs
	seen        []report.Subject
	missing     []report.Missing
	done, total int
}

func (r *runner) run(ctx context.Context) error {
	for _, s := range r.subjects {
		r.total += len(r.chosen(s))
	}
	for _, s := range r.subjects {
		chosen := r.chosen(s)
		if len(chosen) == 0 {
			continue
		}
		r.seen = append(r.seen, s.Subject)
		r.tell(s, "starting")
		st, err := s.start(ctx)
		if err == nil {
			err = errors.Join(r.measure(ctx, s, st, chosen), st.close())
		}
		var absent *servers.NotInstalled
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &absent):
			r.missing = append(r.missing, report.Missing{Subjects: []string{s.Name}, Program: absent.Program, Install: absent.Install})
			r.done += len(chosen)
		case err != nil:
			return fmt.Errorf("the servers of %s: %w", s.Title, err)
		}
	}
	return nil
}

// chosen are the scenarios that are wanted of a subject.
func (r *runner) chosen(s subject) []scenario {
	return slices.DeleteFunc(slices.Clone(scenarios), func(c scenario) bool { return r.Match != nil && !r.Match(c.name, s.Name) })
}

func (r *runner) tell(s subject, what string) {
	if r.Progress != nil {
		r.Progress(r.done, r.total, s.Title+": "+what)
	}
}

// measure measures a subject on its servers. The only error is ctx's.
func (r *runner) measure(ctx context.Context, s subject, st *stage, chosen []scenario) error {
	m := &measurement{
		plan: r.plan, Config: measure.Config{URL: st.url, TTL: s.ttl}, names: "lockport-compare-" + rand.Text()[:8] + "-",
		costs: report.Costs{Subject: s.Name, Setup: s.setup, TTL: float64(s.ttl.Milliseconds()), NotRun: make(map[string]string)},
	}
	for _, c := range chosen {
		r.tell(s, c.name)
		err := c.measure(m, ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var because notRun
		switch {
		case errors.As(err, &because):
			m.costs.NotRun[c.name] = string(because)
		case err != nil:
			m.costs.NotRun[c.name] = "it failed: " + strings.Join(strings.Fields(err.Error()), " ")
		}
		r.done++
		r.tell(s, c.name)
	}
	if len(m.roundTrips) > 0 {
		m.costs.RoundTrip = report.QuantilesOf(m.roundTrips)
	}
	r.costs = append(r.costs, m.costs)
	return nil
}

// notRun is an error that says why there is nothing to measure.
type notRun string

func (e notRun) Error() string { return string(e) }
