// Command referee runs lockport's conformance suite on other lock libraries, on real servers. Each library is behind a thin driver over its public
// API. The result is a verdict on each promise in the library's documentation.
//
//	go run . -library redislock -runs 1 -v
//	go run . -docs ../docs
//	go test -run TestPage -update
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"time"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/referee/libraries"
)

func main() {
	conformance.WorkerMain(openTarget)
	library := flag.String("library", "", "judge only this library (default: all)")
	runs := flag.Int("runs", 3, "number of runs of the suite; a case refutes a promise if it fails in all of them")
	match := flag.String("case", "", "run only cases whose ids contain this text")
	docs := flag.String("docs", "", "write the results to referee.json in this folder")
	verbose := flag.Bool("v", false, "print each case when it ends")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *library, *match, *runs, *docs, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "referee:", err)
		os.Exit(1)
	}
}

// Page is the published results.
type Page struct {
	Date    string
	Runs    int
	Go      string
	Results []Result
}

// Result is the result of one library.
type Result struct {
	Subject string
	Version string
	Use     string
	Servers string
	Took    time.Duration // all runs together
	Runs    int
	Cells   []Cell
	Unable  map[string]string // cases that did not reach their rule, with the reason
}

func run(ctx context.Context, library, match string, runs int, docs string, verbose bool) error {
	subjects := libraries.Subjects()
	if library != "" {
		s, err := libraries.Named(library)
		if err != nil {
			return err
		}
		subjects = []libraries.Subject{s}
	}
	page := &Page{Date: time.Now().UTC().Format(time.DateOnly), Runs: runs, Go: runtime.Version()}
	for _, s := range subjects {
		r, err := judged(ctx, s, match, runs, verbose)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		page.Results = append(page.Results, r)
		fmt.Printf("%s", markdown("result", r))
	}
	if docs == "" {
		return nil
	}
	data, err := json.MarshalIndent(page, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(docs+"/referee.json", append(data, '\n'), 0o644)
}

// judged starts servers for a library, runs the suite and judges it.
func judged(ctx context.Context, s libraries.Subject, match string, runs int, verbose bool) (Result, error) {
	began := time.Now()
	r := Result{Subject: s.Name, Version: cmp.Or(libraries.Version(s.Module), "of this repository"), Use: s.Use, Runs: runs}
	env, err := environment.Named(s.Environment)
	if err != nil {
		return r, err
	}
	servers, err := env.Open(ctx)
	if err != nil {
		return r, err
	}
	defer func() { _ = servers.Close() }()
	r.Servers = env.Title
	options := []conformance.RunOption{conformance.Match(func(c conformance.Case) bool {
		return strings.Contains(c.ID(), match) && counts(s, c.Rule, c.ID())
	})}
	if verbose {
		options = append(options, conformance.Progress(func(res conformance.Result) {
			fmt.Printf("%-8s %s (%.1f s) %s\n", res.Outcome, res.ID(), res.Took.Seconds(), res.Reason)
		}))
	}
	var reports []conformance.Report
	for range runs {
		report, err := once(ctx, s, servers, options)
		if err != nil {
			return r, err
		}
		reports = append(reports, report)
	}
	r.Cells, r.Unable = judge(s, reports)
	r.Took = time.Since(began).Round(time.Second)
	return r, nil
}

// once runs the suite once.
func once(ctx context.Context, s libraries.Subject, servers *environment.Running, options []conformance.RunOption) (conformance.Report, error) {
	lanes, end, err := servers.Lanes(s.IsOp)
	if err != nil {
		return conformance.Report{}, err
	}
	defer end()
	for i := range lanes {
		lanes[i].Target = s.Name + " " + lanes[i].Target
		if s.Remove != nil {
			lanes[i].Faults.Remove = func(ctx context.Context, name string) error { return s.Remove(ctx, servers.URL(), name) }
		}
	}
	cfg := conformance.Config{
		Open: openTarget, Direct: s.Name + " " + servers.URL(), MinTTL: 2 * time.Second, Target: lanes[0].Target, Faults: lanes[0].Faults, Lanes: lanes[1:],
	}
	cfg.Faults.Restart = servers.Restart
	report := conformance.Run(ctx, cfg, options...)
	if report.Error != "" {
		return report, fmt.Errorf("the suite did not run: %s", report.Error)
	}
	return report, servers.Heal(ctx)
}

// openTarget opens a target of the suite: a subject's name and a URL. It runs in worker processes too.
func openTarget(ctx context.Context, target string) (driver.Backend, error) {
	i := strings.LastIndex(target, " ")
	s, err := libraries.Named(target[:max(i, 0)])
	if err != nil {
		return nil, err
	}
	return s.Backend(ctx, target[i+1:])
}
