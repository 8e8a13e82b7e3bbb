// Command bench runs the same scenarios on lockport and on other people's libraries, on the same servers, in turns within one run, and writes what it has
// measured as JSON. It is a module of its own, so that nobody who uses lockport depends on those libraries.
//
//	go run . -o results.json                             everything, for some hours
//	go run . -quick -family redis -scenario 'cycle|own'  whether it works
//	taskset -c 1 go run . -scenario cycle                the length of paths: client and server on one core
//
// A library is a file in package lib.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"

	"github.com/lockport/lockport/bench/crew"
	"github.com/lockport/lockport/bench/render"
	"github.com/lockport/lockport/bench/result"
	"github.com/lockport/lockport/bench/run"
)

func main() {
	crew.Main()
	if err := bench(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func bench() error {
	turns := flag.Int("turns", 5, "how often everything is measured; medians are of turns")
	quick := flag.Bool("quick", false, "short times and few locks, to see that all works")
	out := flag.String("o", "", "the file for the results, as JSON")
	docs := flag.String("docs", "", "the folder with benchmarks.md, into which tables and pictures are put")
	from := flag.String("from", "", "measure nothing: read the results from this file")
	family := flag.String("family", "", "a regular expression for the families of servers: redis, redlock, etcd, zookeeper, postgres, mysql")
	scenario := flag.String("scenario", "", "one for the scenarios: "+strings.Join(run.Scenarios(run.Full), ", "))
	library := flag.String("library", "", "one for the libraries")
	flag.Parse()
	switch part := *quick || *family+*scenario+*library != ""; {
	case flag.NArg() > 0 || *turns < 1:
		return errors.New("see -help")
	case *docs != "" && *from == "" && part:
		return errors.New("the page has whole runs: no -docs for a part of one, or a quick one")
	}
	if *from != "" {
		r, err := result.Read(*from)
		if err != nil {
			return err
		}
		return show(r, *docs)
	}
	match, err := matcher(*family, *scenario, *library)
	if err != nil {
		return err
	}
	o := run.Options{Turns: *turns, Plan: run.Full, Match: match, Progress: func(what string) { fmt.Fprintln(os.Stderr, what) }}
	if *quick {
		o.Plan = run.Quick
	}
	if *out != "" {
		o.Done = func(r *result.Results) error { return r.Write(*out) }
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, err := run.Run(ctx, o)
	if err != nil {
		fmt.Print(render.Text(r)) // what there is; a page has whole runs
		return err
	}
	return show(r, *docs)
}

// show prints the results, or puts them into the page.
func show(r *result.Results, docs string) error {
	if docs != "" {
		return render.Page(r, docs)
	}
	fmt.Print(render.Text(r))
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
