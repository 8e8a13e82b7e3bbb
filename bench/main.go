// Command bench runs the same scenarios on lockport and on other people's libraries, on the same servers, in turns within one run, and writes what it has
// measured as JSON. It is a module of its own, so that nobody who uses lockport depends on those libraries.
//
//	go run . -docs ../docs                               everything, in three quarters of an hour, for the page
//	go run . -docs ../docs -family redis                 one family of servers anew
//	go run . -docs ../docs -from ../docs/benchmarks      the page and its pictures from what was measured, anew
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
	quick := flag.Bool("quick", false, "short times and few locks, in one turn if -turns says nothing, to see that all works")
	out := flag.String("o", "", "the file for the results, as JSON")
	docs := flag.String("docs", "", "the folder with benchmarks.md, into which tables and pictures are put, and the results of each family into benchmarks/FAMILY.json")
	from := flag.String("from", "", "measure nothing: read the results from this file, or from all JSON files of this folder")
	family := flag.String("family", "", "a regular expression for the families of servers: "+strings.Join(families(), ", "))
	scenario := flag.String("scenario", "", "one for the scenarios: "+strings.Join(run.Scenarios(run.Full), ", "))
	library := flag.String("library", "", "one for the libraries")
	flag.Parse()
	switch part := *quick || *scenario+*library != "" || *turns < fewestTurns; {
	case flag.NArg() > 0 || *turns < 1:
		return errors.New("see -help")
	case *docs != "" && *from == "" && part:
		return fmt.Errorf("the page has whole families: no -docs for some scenarios or libraries, a quick run, or one of fewer than %d turns", fewestTurns)
	}
	if *from != "" {
		return show(*from, *docs)
	}
	match, err := matcher(*family, *scenario, *library)
	if err != nil {
		return err
	}
	o := run.Options{Turns: *turns, Plan: run.Full, Match: match, Progress: func(what string) { fmt.Fprintln(os.Stderr, what) }}
	if *quick {
		o.Plan = run.Quick
		if !given("turns") {
			o.Turns = 1
		}
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

// given says whether a flag was set.
func given(name string) (yes bool) {
	flag.Visit(func(f *flag.Flag) { yes = yes || f.Name == name })
	return yes
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

// show prints results, or renders the page from those in its own folder.
func show(from, docs string) error {
	if docs != "" {
		if filepath.Clean(from) != filepath.Join(docs, render.Folder) {
			return fmt.Errorf("the page shows what is in %s", filepath.Join(docs, render.Folder))
		}
		return render.Page(docs)
	}
	about, err := os.Stat(from)
	if err != nil {
		return err
	}
	var all []*result.Results
	if about.IsDir() {
		all, err = result.ReadAll(from)
	} else {
		var r *result.Results
		r, err = result.Read(from)
		all = append(all, r)
	}
	if err != nil {
		return err
	}
	for _, r := range all {
		fmt.Print(render.Text(r))
	}
	fmt.Print(render.Goals(all))
	return nil
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
