// Package run measures the same scenarios on all libraries of a family, on the same servers, in turns: in each turn every library has a go, beginning with
// another one each time, so that what disturbs the machine for a while disturbs all of them.
package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/lockport/lockport/bench/lib"
	"github.com/lockport/lockport/bench/result"
	"github.com/lockport/lockport/bench/stage"
	"github.com/lockport/lockport/internal/lab/servers"
)

// Options say what is measured.
type Options struct {
	Turns int
	Plan  Plan
	// Match chooses.
	Match func(family, scenario, library string) bool
	// Progress is told what begins.
	Progress func(what string)
	// Whole, if not nil, is given each family's results when all of that was measured.
	Whole func(*result.Results) error
}

// Run measures. A family whose servers are not installed is left out, and Progress is told. When ctx ends, Run returns its error, and what there is.
func Run(ctx context.Context, o Options) (*result.Results, error) {
	r := &runner{Options: o, Results: &result.Results{
		Made: time.Now().UTC().Truncate(time.Second), Turns: o.Turns, Comparable: o.Plan == Full,
		Machine: result.Machine{System: runtime.GOOS + "/" + runtime.GOARCH, Processor: processor(), Cores: runtime.NumCPU(), Go: runtime.Version()},
		Servers: servers.Versions(ctx),
	}}
	for _, f := range stage.Families {
		if err := r.family(ctx, f); err != nil {
			return r.Results, err
		}
	}
	return r.Results, nil
}

// processor is the machine's, as Linux says; empty elsewhere.
func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	_, after, _ := strings.Cut(string(text), "model name")
	name, _, _ := strings.Cut(after, "\n")
	return strings.TrimLeft(name, "\t :")
}

type runner struct {
	Options
	*result.Results
}

// family measures one kind of servers. The only errors are ctx's and those of the servers.
func (r *runner) family(ctx context.Context, f stage.Family) error {
	var st *stage.Stage
	seen := make(map[string]bool)
	for _, s := range scenarios(r.Plan) {
		var entries []*entry
		for _, l := range lib.All(f.Name) {
			if !l.In(s.name) || !s.takes(l) || !r.Match(f.Name, s.name, l.Name) {
				continue
			}
			e := &entry{row: result.Row{Library: l.Name, Kind: string(l.Kind)}}
			e.place = place{Plan: r.Plan, lib: l, name: strings.Map(letters, fmt.Sprintf("bench-%s-%s", s.name, l.Name))}
			if most := l.Most(s.name); most > 0 && s.n > most {
				e.row.NotRun = fmt.Sprintf("not with more than %d: %s", most, l.WhyMost)
			}
			entries = append(entries, e)
			if !seen[l.Name] {
				seen[l.Name] = true
				r.Libraries = append(r.Libraries, l.Result())
			}
		}
		if len(entries) == 0 {
			continue
		}
		if st == nil {
			r.Progress(f.Title + ": starting")
			var err error
			st, err = f.Start(ctx)
			var absent *servers.NotInstalled
			if errors.As(err, &absent) {
				r.Progress(f.Title + ": left out: " + absent.Error())
				return nil
			}
			if err != nil {
				return fmt.Errorf("the servers of %s: %w", f.Title, err)
			}
			defer func() { _ = st.Close() }() // it has nothing that anybody needs
		}
		for _, e := range entries {
			e.stage = st
		}
		rows := r.rows(ctx, s, entries)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.Scenarios = append(r.Scenarios, result.Scenario{Name: s.name, Title: s.title, Family: f.Name, Setup: f.Setup, Rows: rows})
	}
	if st != nil && r.Whole != nil {
		return r.Whole(r.Of(f.Name))
	}
	return nil
}

// entry is a library that takes part.
type entry struct {
	place
	row result.Row
	// Both are nil until it is opened.
	play turn
	end  func()
}

// rows measures one scenario. What fails is said in the library's row, and the others go on.
func (r *runner) rows(ctx context.Context, s scenario, entries []*entry) (rows []result.Row) {
	for turn := range r.Options.Turns {
		for i := range entries {
			e := entries[(i+turn)%len(entries)]
			if e.row.NotRun != "" || ctx.Err() != nil {
				continue
			}
			r.Progress(fmt.Sprintf("%s: %s, turn %d of %d: %s", e.lib.Family, s.name, turn+1, r.Options.Turns, e.lib.Name))
			values, err := e.measure(ctx, s, turn)
			if err != nil { // it begins anew in the next turn
				e.close()
				e.row.Failed = append(e.row.Failed, fmt.Sprintf("turn %d: %s", turn+1, strings.Join(strings.Fields(err.Error()), " ")))
				continue
			}
			e.row.Add(turn, values)
		}
	}
	for _, e := range entries {
		e.close()
		if len(e.row.Turns) == 0 && e.row.NotRun == "" {
			e.row.NotRun = "it failed in every turn"
		}
		rows = append(rows, e.row)
	}
	return rows
}

// measure measures a library in one turn.
func (e *entry) measure(ctx context.Context, s scenario, turn int) (values []result.Value, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.Limit)
	defer cancel()
	if e.play == nil {
		if e.play, e.end, err = s.open(ctx, e.place); err != nil {
			return nil, err
		}
	}
	return e.play(ctx, turn)
}

func (e *entry) close() {
	if e.end != nil {
		e.end()
	}
	e.play, e.end = nil, nil
}

// letters leaves of a name what every server takes in one.
func letters(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
		return r
	}
	return -1
}
