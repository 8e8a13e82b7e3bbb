package costs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

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
func Scenarios() []string {
	var names []string
	for _, s := range scenarios {
		names = append(names, s.name)
	}
	return names
}

// Run measures, one subject after the other, and returns what was seen, of what, and which servers are not installed. A URL that cannot be opened is an
// error before anything is measured. What fails on the way is said in Costs.NotRun, and the rest goes on. When ctx ends, Run returns its error within a few
// seconds: all processes have ended, and locks are released. Its workers are this binary again: see
// [WorkerMain].
func Run(ctx context.Context, o Options) ([]report.Costs, []report.Subject, []report.Missing, error) {
	p := quick
	if o.Full {
		p = full
	}
	subjects := ours
	if len(o.URLs) > 0 {
		var err error
		if subjects, err = theirs(ctx, o.URLs); err != nil {
			return nil, nil, nil, err
		}
	}
	r := &runner{Options: o, plan: p, subjects: subjects}
	err := r.run(ctx)
	return r.costs, r.seen, r.missing, err
}

// notRun is an error that says why there is nothing to measure.
type notRun string

func (e notRun) Error() string { return string(e) }

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
	versions := servers.Versions(ctx)
	for _, s := range r.subjects {
		chosen := r.chosen(s)
		if len(chosen) == 0 {
			continue
		}
		if s.URL == "" {
			s.Servers = s.version(versions)
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
			r.miss(s.Name, absent)
			r.done += len(chosen)
		case err != nil:
			return fmt.Errorf("the servers of %s: %w", s.Title, err)
		}
	}
	return nil
}

// chosen are the indexes of the scenarios that are wanted of a subject.
func (r *runner) chosen(s subject) (chosen []int) {
	for i, scenario := range scenarios {
		if r.Match == nil || r.Match(scenario.name, s.Name) {
			chosen = append(chosen, i)
		}
	}
	return chosen
}

func (r *runner) tell(s subject, what string) {
	if r.Progress != nil {
		r.Progress(r.done, r.total, s.Title+": "+what)
	}
}

// measure measures a subject on a stage. The only error is ctx's.
func (r *runner) measure(ctx context.Context, s subject, st *stage, chosen []int) error {
	m := &measurement{
		plan: r.plan, Config: measure.Config{URL: st.url, TTL: s.ttl}, stage: st, names: "lockport-compare-" + rand.Text()[:8] + "-",
		costs: &report.Costs{Subject: s.Name, Setup: s.setup, TTL: float64(s.ttl.Milliseconds()), NotRun: make(map[string]string)},
	}
	for len(chosen) > 0 {
		now := chosen[:1]
		for scenarios[chosen[0]].idle && len(now) < len(chosen) && scenarios[chosen[len(now)]].idle {
			now = chosen[:len(now)+1]
		}
		chosen = chosen[len(now):]
		if err := r.together(ctx, s, m, now); err != nil {
			return err
		}
	}
	if len(m.pings) > 0 {
		q := report.QuantilesOf(m.pings)
		m.costs.RoundTrip = &q
	}
	r.costs = append(r.costs, *m.costs)
	return nil
}

// together measures some scenarios at the same time.
func (r *runner) together(ctx context.Context, s subject, m *measurement, some []int) error {
	var names []string
	for _, i := range some {
		names = append(names, scenarios[i].name)
	}
	what := strings.Join(names, ", ")
	r.tell(s, what)
	errs := make([]error, len(some))
	var all sync.WaitGroup
	for at, i := range some {
		all.Go(func() { errs[at] = scenarios[i].measure(m, ctx) })
	}
	all.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for at, err := range errs {
		if err != nil {
			m.costs.NotRun[names[at]] = why(err)
		}
	}
	r.done += len(some)
	r.tell(s, what)
	return nil
}

// why is an error for people, in one line.
func why(err error) string {
	var because notRun
	if errors.As(err, &because) {
		return because.Error()
	}
	return "it failed: " + strings.Join(strings.Fields(err.Error()), " ")
}

// miss notes that a program is not installed of which a subject has need.
func (r *runner) miss(subject string, e *servers.NotInstalled) {
	i := slices.IndexFunc(r.missing, func(m report.Missing) bool { return m.Program == e.Program })
	if i < 0 {
		r.missing = append(r.missing, report.Missing{Subjects: []string{subject}, Program: e.Program, Install: e.Install})
		return
	}
	r.missing[i].Subjects = append(r.missing[i].Subjects, subject)
}
