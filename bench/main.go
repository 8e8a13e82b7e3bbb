// Command bench runs the same scenarios on lockport and on other people's libraries, on the same servers, in turns within one run, and writes what it has
// measured as JSON. It is a module of its own, so that nobody who uses lockport depends on those libraries.
//
//	go run . -docs ../docs                               everything, in three quarters of an hour, for the page
//	go run . -docs ../docs -family redis                 one family of servers anew
//	go run . -docs ../docs -page                         the page and its pictures from what was measured, anew
//	go run . -quick -family redis -scenario 'cycle|own'  whether it works
//	taskset -c 1 go run . -scenario cycle                the length of paths: client and server on one core
//
// A library is a file in package lib, a goal a line in package goal.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/lockport/lockport/bench/lib"
	"github.com/lockport/lockport/bench/render"
	"github.com/lockport/lockport/bench/result"
	"github.com/lockport/lockport/bench/run"
	"github.com/lockport/lockport/bench/stage"
)

func main() {
	lib.WorkerMain()
	if err := bench(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// fewestTurns is how many the page has at least.
const fewestTurns = 5

func bench() error {
	turns := flag.Int("turns", fewestTurns, "how often everything is measured; medians are of turns")
	quick := flag.Bool("quick", false, "short times and few locks, in one turn, to see that all works")
	out := flag.String("o", "", "the file for the results, as JSON")
	docs := flag.String("docs", "", "the folder with benchmarks.md, into which tables and pictures are put, and the results of each family into benchmarks/FAMILY.json")
	again := flag.Bool("page", false, "measure nothing: with -docs, render the page from the results that are there")
	family := flag.String("family", "", "a regular expression for the families of servers: "+strings.Join(families(), ", "))
	scenario := flag.String("scenario", "", "one for the scenarios: "+strings.Join(run.Scenarios(run.Full), ", "))
	library := flag.String("library", "", "one for the libraries")
	flag.Parse()
	switch part := *quick || *scenario+*library != "" || *turns < fewestTurns; {
	case flag.NArg() > 0 || *turns < 1:
		return errors.New("see -help")
	case *again:
		return render.Page(*docs)
	case *docs != "" && part:
		return fmt.Errorf("the page has whole families: no -docs for some scenarios or libraries, a quick run, or one of fewer than %d turns", fewestTurns)
	}
	match, err := matcher(*family, *scenario, *library)
	if err != nil {
		return err
	}
	o := run.Options{Turns: *turns, Plan: run.Full, Match: match, Progress: func(what string) { fmt.Fprintln(os.Stderr, what) }}
	if *quick {
		o.Plan, o.Turns = run.Quick, 1
	}
	if *docs != "" {
		o.Whole = func(r *result.Results) error { return keep(r, *docs) }
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, err := run.Run(ctx, o)
	if *docs == "" || err != nil {
		fmt.Print(render.Text(r)) // what there is; a page has whole families
	}
	if *out != "" {
		err = errors.Join(err, r.Write(*out))
	}
	return err
}

// families are the names of all.
func families() (names []string) {
	for _, f := range stage.Families {
		names = append(names, f.Name)
	}
	return names
}

// keep writes one family's results, and the page anew.
func keep(r *result.Results, docs string) error {
	folder := filepath.Join(docs, render.Folder)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if err := r.Write(filepath.Join(folder, r.Scenarios[0].Family+".json")); err != nil {
		return err
	}
	return render.Page(docs)
}

// matcher chooses by regular expressions, each for a whole name.
func matcher(family, scenario, library string) (func(f, s, l string) bool, error) {
	var all []*regexp.Regexp
	for _, text := range []string{family, scenario, library} {
		if text == "" {
			text = ".*"
		}
		re, err := regexp.Compile("^(?:" + text + ")$")
		if err != nil {
			return nil, err
		}
		all = append(all, re)
	}
	return func(f, s, l string) bool {
		return all[0].MatchString(f) && all[1].MatchString(s) && all[2].MatchString(l)
	}, nil
}
