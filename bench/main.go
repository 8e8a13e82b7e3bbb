// Command bench runs the same scenarios on lockport and on other people's libraries, on the same servers, in turns within one run, and writes what it has
// measured as a page. It is a module of its own, so that nobody who uses lockport depends on those libraries.
//
//	go run . -docs ../docs                               everything, in three quarters of an hour, for the page
//	go run . -docs ../docs -family redis                 one family of servers anew
//	go run . -docs ../docs -page                         the page from what was measured, anew
//	go run . -quick -family redis -scenario 'cycle|own-64'  whether it works
//	taskset -c 1 go run . -scenario cycle                the length of paths: client and server on one core
//
// A library is a row in package lib, a goal a row in package page.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"

	"github.com/lockport/lockport/bench/lib"
	"github.com/lockport/lockport/bench/page"
	"github.com/lockport/lockport/internal/lab/servers"
)

func main() {
	lib.WorkerMain()
	if err := bench(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func bench() error {
	turns := flag.Int("turns", full.turns, "how often everything is measured; medians are of turns")
	short := flag.Bool("quick", false, "short times and few locks, in one turn, to see that all works")
	docs := flag.String("docs", "", "the folder with benchmarks.md, into which tables are put, and the results of each family into benchmarks/FAMILY.json")
	again := flag.Bool("page", false, "measure nothing: with -docs, render the page from the results that are there")
	family := flag.String("family", ".*", "a regular expression for the families of servers")
	scenario := flag.String("scenario", ".*", "one for the scenarios")
	library := flag.String("library", ".*", "one for the libraries")
	flag.Parse()
	switch {
	case flag.NArg() > 0 || *turns < 1:
		return errors.New("see -help")
	case *again:
		return page.Write(*docs)
	case *docs != "" && (*short || *scenario+*library != ".*.*" || *turns < full.turns):
		return fmt.Errorf("the page has whole families: no -docs for some scenarios or libraries, a quick run, or one of fewer than %d turns", full.turns)
	}
	match, err := regexp.Compile("^(?:" + *family + ")\n(?:" + *scenario + ")\n(?:" + *library + ")$")
	if err != nil {
		return err
	}
	o := options{plan: full, progress: func(what string) { fmt.Fprintln(os.Stderr, what) }}
	o.turns = *turns
	o.match = func(f, s, l string) bool { return match.MatchString(f + "\n" + s + "\n" + l) }
	if *short {
		o.plan = quick
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o.versions = servers.Versions(ctx)
	runs := make(map[string]*page.Results)
	for _, f := range lib.Families {
		r, err := run(ctx, f, o)
		var absent *servers.NotInstalled
		switch {
		case errors.As(err, &absent):
			o.progress("left out: " + err.Error())
		case err != nil:
			return err
		case len(r.Scenarios) == 0: // nothing matches
		case *docs != "":
			if err := page.Keep(r, *docs); err != nil {
				return err
			}
		default:
			runs[f.Name] = r
		}
	}
	if *docs == "" {
		text, err := page.Text(runs, true)
		fmt.Print(text)
		return err
	}
	return nil
}
