// Package run measures the same scenarios on all libraries of a family, on the same servers, in turns: in each turn every library has a go, beginning with
// another one each time, so that what disturbs the machine for a while disturbs all of them.
package run

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/lockport/lockport/internal/lab/servers"

	"github.com/lockport/lockport/bench/crew"
	"github.com/lockport/lockport/bench/lib"
	"github.com/lockport/lockport/bench/result"
	"github.com/lockport/lockport/bench/stage"
)

// Options say what is measured.
type Options struct {
	Turns int
	Plan  Plan
	// Match chooses; nil: all.
	Match func(family, scenario, library string) bool
	// Progress, if not nil, is told what begins.
	Progress func(what string)
	// Done, if not nil, is given what there is after each scenario, so that a run which is broken off leaves something, and Whole each family's results
	// when all of that was measured.
	Done, Whole func(*result.Results) error
	// Profiles, if not empty, is a folder for profiles of lockport's own processes.
	Profiles string
}

// Run measures. A family whose servers are not installed is left out, and said to be so by Progress. When ctx ends, it returns its error, and what there is.
func Run(ctx context.Context, o Options) (*result.Results, error) {
	if o.Match == nil {
		o.Match = func(string, string, string) bool { return true }
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	r := &runner{Options: o, Results: &result.Results{
		Made: time.Now().UTC().Truncate(time.Second), Turns: o.Turns, Comparable: o.Plan == Full,
		Machine: result.Machine{System: runtime.GOOS + "/" + runtime.GOARCH, Processor: processor(), Cores: runtime.NumCPU(), Go: runtime.Version()},
		Servers: servers.Versions(ctx),
	}}
	r.progress = r.newProgress()
	for _, f := range stage.Families {
		if err := r.family(ctx, f); err != nil {
			return r.Results, err
		}
	}
	return r.Results, nil
}

type runner struct {
	Options
	*result.Results
	*progress
}

// player is one library in one scenario.
type player interface {
	// turn measures it once. n is the number of the turn.
	turn(ctx context.Context, n int) ([]result.Value, error)
	close()
}

// scenario is what is measured.
type scenario struct {
	name, title string
	// unfit says why a library cannot take part, or nothing.
	unfit func(l lib.Library) string
	// open gets a library ready for its turns.
	open func(ctx context.Context, at place) (player, error)
	// about is how long a turn of a library takes, more or less.
	about time.Duration
}

// takes says whether a library is named in the scenario, and why it does not take part nevertheless, or nothing.
func (s scenario) takes(l lib.Library) (why string, named bool) {
	if !l.In(s.name) {
		return "", false
	}
	why = s.unfit(l)
	return why, why != notShown
}

// place is where a player plays.
type place struct {
	Plan
	stage *stage.Stage
	lib   lib.Library
	// name is the beginning of its locks' names.
	name string
	// profiles is the beginning of the names of its workers' profiles; empty: none.
	profiles string
}

// config is what its library is opened with.
func (p place) config(ttl time.Duration) lib.Config { return lib.Config{URL: p.stage.URL, TTL: ttl} }

func (p place) posting(c lib.Config) crew.Posting {
	return crew.Posting{Family: p.lib.Family, Library: p.lib.Name, Config: c, Profiles: p.profiles}
}

// family measures one kind of servers. The only errors are ctx's and those of the servers.
func (r *runner) family(ctx context.Context, f stage.Family) error {
	var st *stage.Stage
	seen := make(map[string]bool)
	for _, s := range scenarios(r.Plan) {
		libs := r.matching(f, s)
		if len(libs) == 0 {
			continue
		}
		if st == nil {
			r.say(f.Title + ": starting")
			var err error
			st, err = f.Start(ctx)
			var absent *servers.NotInstalled
			if errors.As(err, &absent) {
				r.say(f.Title + ": left out: " + absent.Error())
				r.leaveOut(f)
				return nil
			}
			if err != nil {
				return fmt.Errorf("the servers of %s: %w", f.Title, err)
			}
			defer func() { _ = st.Close() }() // it has nothing that anybody needs
		}
		for _, l := range libs {
			if !seen[l.Name] {
				seen[l.Name] = true
				r.Libraries = append(r.Libraries, result.Library{
					Family: l.Family, Name: l.Name, Kind: string(l.Kind), Module: l.Module, Version: l.Version(), How: l.How, Renewal: string(l.Renewal),
				})
			}
		}
		measured := r.scenario(ctx, s, st, libs)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		measured.Family, measured.Setup = f.Name, st.Setup
		r.Scenarios = append(r.Scenarios, measured)
		if r.Done != nil {
			if err := r.Done(r.Results); err != nil {
				return err
			}
		}
	}
	if st != nil && r.Whole != nil {
		return r.Whole(r.Of(f.Name))
	}
	return nil
}

// matching are the libraries that are chosen for a scenario, and named in it.
func (r *runner) matching(f stage.Family, s scenario) (libs []lib.Library) {
	for _, l := range lib.All(f.Name) {
		if _, named := s.takes(l); named && r.Match(f.Name, s.name, l.Name) {
			libs = append(libs, l)
		}
	}
	return libs
}

// entry is a library that takes part.
type entry struct {
	place
	row    result.Row
	player player // nil if it is to be opened
}

// scenario measures one scenario. What fails is said in the library's row, and the others go on.
func (r *runner) scenario(ctx context.Context, s scenario, st *stage.Stage, libs []lib.Library) result.Scenario {
	var entries []*entry
	for _, l := range libs {
		why, _ := s.takes(l)
		at := place{Plan: r.Plan, stage: st, lib: l, name: strings.Map(letters, fmt.Sprintf("bench-%s-%s", s.name, l.Name))}
		if ours := l.Kind == lib.Ours || l.Kind == lib.Variant; ours && r.Profiles != "" {
			at.profiles = filepath.Join(r.Profiles, l.Family+"-"+strings.TrimPrefix(at.name, "bench-"))
		}
		entries = append(entries, &entry{row: result.Row{Library: l.Name, Kind: string(l.Kind), NotRun: why}, place: at})
	}
	for turn := range r.Options.Turns {
		for i := range entries {
			e := entries[(i+turn)%len(entries)]
			if e.row.NotRun != "" || ctx.Err() != nil {
				continue
			}
			r.say(fmt.Sprintf("%s: %s, turn %d of %d: %s", e.lib.Family, s.name, turn+1, r.Options.Turns, e.lib.Name))
			e.play(ctx, s, turn)
			r.did(s.about)
		}
	}
	measured := result.Scenario{Name: s.name, Title: s.title}
	for _, e := range entries {
		e.end()
		if len(e.row.Turns) == 0 && e.row.NotRun == "" {
			e.row.NotRun = "it failed in every turn"
		}
		measured.Rows = append(measured.Rows, e.row)
	}
	return measured
}

// play measures a library in one turn. After a turn that failed it begins anew.
func (e *entry) play(ctx context.Context, s scenario, turn int) {
	ctx, cancel := context.WithTimeout(ctx, e.Limit)
	defer cancel()
	var values []result.Value
	var err error
	if e.player == nil {
		e.player, err = s.open(ctx, e.place)
	}
	if err == nil {
		values, err = e.player.turn(ctx, turn)
	}
	if err != nil {
		e.end()
		e.row.Failed = append(e.row.Failed, fmt.Sprintf("turn %d: %s", turn+1, strings.Join(strings.Fields(err.Error()), " ")))
		return
	}
	e.row.Add(turn, values)
}

func (e *entry) end() {
	if e.player != nil {
		e.player.close()
		e.player = nil
	}
}

// letters leaves of a name what every server takes in one.
func letters(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
		return r
	}
	return -1
}
