// Command referee runs lockport's conformance suite on other lock libraries, on real servers. Each library is behind a thin driver over its public
// API. The result is a verdict on each promise in the library's documentation.
//
//	go run . -library redislock -runs 1 -v
//	go run . -repro redislock-release localhost:6379
//	go run . -docs ../docs
//	go test -run TestPage -update
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"time"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/referee/libraries"
	"github.com/lockport/lockport/referee/repro"
)

func main() {
	conformance.WorkerMain(openTarget)
	library := flag.String("library", "", "judge only this library (default: all)")
	runs := flag.Int("runs", 3, "number of runs of the suite; a case refutes a promise if it fails in all of them")
	match := flag.String("case", "", "run only cases whose ids contain this text")
	reproduce := flag.String("repro", "", "run a reproduction of package repro on the server whose address is the argument, and nothing else")
	docs := flag.String("docs", "", "write the results to referee.json in this folder")
	verbose := flag.Bool("v", false, "print each case when it ends")
	flag.Parse()
	if *reproduce != "" {
		for _, r := range repro.All {
			if r.Name == *reproduce {
				r.Run(flag.Arg(0))
				return
			}
		}
		log.Fatalf("there is no reproduction %q", *reproduce)
	}
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
	Subject   string
	Version   string
	Use       string
	Servers   string
	Cells     []Cell
	Sometimes []string `json:",omitempty"` // cases that failed in some runs only
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
	r := Result{Subject: s.Name, Version: cmp.Or(libraries.Version(s.Module), "of this repository"), Use: s.Use}
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
	lanes, end, err := servers.Lanes(s.IsOp)
	if err != nil {
		return r, err
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
	var reports []conformance.Report
	for range runs {
		report := conformance.Run(ctx, cfg, options...)
		if report.Error != "" {
			return r, fmt.Errorf("the suite did not run: %s", report.Error)
		}
		if err := servers.Heal(ctx); err != nil {
			return r, err
		}
		reports = append(reports, report)
	}
	r.Cells, r.Sometimes = judge(s, reports)
	return r, nil
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
