package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockport/lockport/bench/lib"
	"github.com/lockport/lockport/bench/page"
	"github.com/lockport/lockport/internal/lab/measure"
	"github.com/lockport/lockport/internal/lab/report"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/referee/libraries"
)

type options struct {
	plan
	match    func(family, scenario, library string) bool
	progress func(what string)
}

// run measures the scenarios on all libraries of a family, on the same servers. It returns only ctx's errors and those of the servers.
func run(ctx context.Context, f lib.Family, o options) (*page.Results, error) {
	r := &page.Results{
		Made: time.Now().UTC().Truncate(time.Second), Machine: report.ThisMachine(), Turns: o.turns, Servers: servers.Versions(ctx),
	}
	onOne, onAll := scenarios(o.plan)
	release, err := takeOneProcessor()
	if err != nil {
		o.progress("measured on all processors: " + err.Error())
	}
	err = measureAll(ctx, r, f, onOne, o)
	release()
	if err == nil {
		err = measureAll(ctx, r, f, onAll, o)
	}
	return r, err
}

// takeOneProcessor limits this program, and the servers and workers that it starts from now on, to one processor, until release is called.
func takeOneProcessor() (release func(), err error) {
	taskset := func(args ...string) (string, error) {
		out, err := exec.Command("taskset", append(args, strconv.Itoa(os.Getpid()))...).Output()
		_, list, _ := strings.Cut(strings.TrimSpace(string(out)), "list: ")
		return list, err
	}
	all, err := taskset("-c", "-p")
	if err == nil {
		first, _, _ := strings.Cut(strings.ReplaceAll(all, "-", ","), ",")
		_, err = taskset("-a", "-c", "-p", first)
	}
	return func() { _, _ = taskset("-a", "-c", "-p", all) }, err
}

// measureAll adds what it measures to r.
func measureAll(ctx context.Context, r *page.Results, f lib.Family, planned []scenario, o options) error {
	var s *measure.Servers
	for _, sc := range planned {
		var all []lib.Library
		for _, l := range lib.All {
			if l.Family == f.Name && sc.has(l) && o.match(f.Name, sc.Name, l.Name) {
				all = append(all, l)
			}
		}
		if len(all) == 0 {
			continue
		}
		if s == nil {
			o.progress(f.Title + ": starting")
			var err error
			if s, err = f.Start(ctx); err != nil {
				return fmt.Errorf("the servers of %s: %w", f.Title, err)
			}
			defer func() { _ = s.Close() }() // errors do not matter any more
		}
		var subjects []*measure.Subject
		for _, l := range all {
			subjects = append(subjects, &measure.Subject{
				Row: measure.Row{Library: l.Name, Kind: l.Kind}, Config: measure.Config{URL: s.URL, TTL: sc.ttl, Family: l.Family, Library: l.Name},
				Locks: letters.ReplaceAllString("bench-"+sc.Name+"-"+l.Name, ""), Try: l.Kind == lib.Floor,
			})
			if !slices.ContainsFunc(r.Libraries, func(known lib.Library) bool { return known.Name == l.Name }) {
				l.Version = libraries.Version(l.Module)
				r.Libraries = append(r.Libraries, l)
			}
		}
		err := sc.Run(ctx, func(turn int, on *measure.Subject) {
			o.progress(fmt.Sprintf("%s: %s, turn %d of %d: %s", f.Name, sc.Name, turn+1, o.turns, on.Library))
		}, subjects...)
		if err != nil {
			return err
		}
		measured := page.Scenario{Name: sc.Name, Title: sc.Title}
		for _, on := range subjects {
			measured.Rows = append(measured.Rows, on.Row)
		}
		r.Scenarios = append(r.Scenarios, measured)
	}
	return nil
}

// letters matches what some servers do not accept in a name.
var letters = regexp.MustCompile(`[^a-zA-Z0-9-]`)
