package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/lockport/lockport/bench/lib"
	"github.com/lockport/lockport/bench/page"
	"github.com/lockport/lockport/internal/lab/measure"
)

// options say what is measured.
type options struct {
	plan
	turns    int
	match    func(family, scenario, library string) bool
	progress func(what string)
	versions map[string]string // of the servers, by kind
}

// newResults are results without any scenario.
func newResults(o options) *page.Results {
	r := &page.Results{Made: time.Now().UTC().Truncate(time.Second), Turns: o.turns, Comparable: o.limit == full.limit, Servers: o.versions}
	r.Machine.System, r.Machine.Cores, r.Machine.Go = runtime.GOOS+"/"+runtime.GOARCH, runtime.NumCPU(), runtime.Version()
	text, _ := os.ReadFile("/proc/cpuinfo")
	if name := regexp.MustCompile(`model name\s*: (.*)`).FindSubmatch(text); name != nil {
		r.Machine.Processor = string(name[1])
	}
	return r
}

// run measures the scenarios on all libraries of a family, on the same servers, in turns. In each turn every library has a go, beginning with another one
// each time, so that what disturbs the machine for a while disturbs all of them. The only errors are ctx's and those of the servers.
func run(ctx context.Context, f lib.Family, o options) (*page.Results, error) {
	r := newResults(o)
	var s *lib.Servers
	for _, sc := range scenarios(o.plan) {
		var entries []*entry
		for _, l := range lib.All {
			if l.Family == f.Name && l.In(sc.name) && sc.takes(l) && o.match(f.Name, sc.name, l.Name) {
				entries = append(entries, newEntry(l, sc, o.plan))
			}
		}
		if len(entries) == 0 {
			continue
		}
		if s == nil {
			o.progress(f.Title + ": starting")
			var err error
			if s, err = f.Start(ctx); err != nil {
				return r, fmt.Errorf("the servers of %s: %w", f.Title, err)
			}
			defer func() { _ = s.Close() }() // it has nothing that anybody needs
		}
		measured := page.Scenario{Name: sc.name, Title: sc.title, Family: f.Name, Setup: f.Setup}
		for turn := range o.turns {
			for i := range entries {
				e := entries[(i+turn)%len(entries)]
				e.servers = s
				if e.NotRun == "" && ctx.Err() == nil {
					o.progress(fmt.Sprintf("%s: %s, turn %d of %d: %s", f.Name, sc.name, turn+1, o.turns, e.Library))
					e.turn(ctx, sc, turn)
				}
			}
		}
		for _, e := range entries {
			e.close()
			if len(e.Turns) == 0 && e.NotRun == "" {
				e.NotRun = "it failed in every turn"
			}
			measured.Rows = append(measured.Rows, e.Row)
			if known := result(e.lib); !slices.Contains(r.Libraries, known) {
				r.Libraries = append(r.Libraries, known)
			}
		}
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		r.Scenarios = append(r.Scenarios, measured)
	}
	return r, nil
}

// result is what results say of a library. Its version is that of its module in this program.
func result(l lib.Library) page.Library {
	r := page.Library{Family: l.Family, Name: l.Name, Kind: l.Kind, Module: l.Module, How: l.How, Renewal: l.Renewal}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == l.Module {
				r.Version = m.Version
			}
		}
	}
	return r
}

// entry is a library that takes part in a scenario.
type entry struct {
	plan
	page.Row
	lib     lib.Library
	servers *lib.Servers
	name    string           // the beginning of its locks' names
	workers *measure.Workers // nil until the scenario starts them
}

// letters are what every server takes in a name.
var letters = regexp.MustCompile(`[^a-zA-Z0-9-]`)

func newEntry(l lib.Library, s scenario, p plan) *entry {
	e := &entry{plan: p, Row: page.Row{Library: l.Name, Kind: l.Kind}, lib: l, name: letters.ReplaceAllString("bench-"+s.name+"-"+l.Name, "")}
	if s.most != nil && s.most(l) > 0 && s.n > s.most(l) {
		e.NotRun = fmt.Sprintf("not with more than %d: %s", s.most(l), l.WhyMost)
	}
	return e
}

func (e *entry) config(ttl time.Duration) measure.Config {
	return measure.Config{URL: e.servers.URL, TTL: ttl, Family: e.lib.Family, Library: e.lib.Name}
}

// start starts n workers, unless they are there from an earlier turn.
func (e *entry) start(ctx context.Context, n int) (fresh bool, err error) {
	if e.workers != nil {
		return false, nil
	}
	e.workers, err = measure.Start(ctx, e.config(ttl), n)
	return true, err
}

func (e *entry) close() {
	if e.workers != nil {
		e.workers.Close()
	}
	e.workers = nil
}

// turn measures the library once. When that fails, it begins anew in the next turn, and the others go on.
func (e *entry) turn(ctx context.Context, s scenario, turn int) {
	ctx, cancel := context.WithTimeout(ctx, e.limit)
	defer cancel()
	figures, err := s.measure(ctx, e, turn)
	if err != nil {
		e.close()
		e.Failed = append(e.Failed, fmt.Sprintf("turn %d: %s", turn+1, strings.Join(strings.Fields(err.Error()), " ")))
		return
	}
	e.Add(turn, figures...)
}
