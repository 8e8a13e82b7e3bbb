// Command bench runs the same scenarios on lockport and on other libraries, on the same servers, in alternating turns of one run. It writes the
// results as text, or for docs/benchmarks.md. It is a nested module, so that lockport's users do not depend on those libraries.
//
//	go run . -docs ../docs                                  measure everything for the page, in 45 minutes
//	go run . -docs ../docs -family redis                    measure one family of servers again
//	go test ./page -run TestPage -update                    render the page from the results
//	go run . -quick -family redis -scenario 'cycle|own-64'  check quickly that it works
//
// Add a library in package lib, and a goal in package page.
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
	turns := flag.Int("turns", full.turns, "number of turns; every turn measures everything, and the page shows medians of turns")
	short := flag.Bool("quick", false, "a quick check that everything works: one turn, short times, few locks")
	docs := flag.String("docs", "", "write each family's results to this folder's benchmarks/FAMILY.json")
	family := flag.String("family", ".*", "regular expression: measure these families of servers")
	scenario := flag.String("scenario", ".*", "regular expression: measure these scenarios")
	library := flag.String("library", ".*", "regular expression: measure these libraries")
	flag.Parse()
	switch {
	case flag.NArg() > 0 || *turns < 1:
		return errors.New("invalid arguments: see -help")
	case *docs != "" && (*short || *scenario+*library != ".*.*" || *turns < full.turns):
		return fmt.Errorf("-docs needs complete results: do not combine it with -scenario, -library, -quick or fewer than %d turns", full.turns)
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
	runs := make(map[string]*page.Results)
	measured := 0
	for _, f := range lib.Families {
		r, err := run(ctx, f, o)
		measured += len(r.Scenarios)
		_, absent := errors.AsType[*servers.NotInstalled](err)
		switch {
		case absent:
			o.progress("skipped: " + err.Error())
		case err != nil:
			return err
		case len(r.Scenarios) == 0: // nothing matches
		case *docs != "":
			if err := r.Write(filepath.Join(*docs, "benchmarks", f.Name+".json")); err != nil {
				return err
			}
		default:
			runs[f.Name] = r
		}
	}
	switch {
	case measured == 0:
		return errors.New("nothing was measured: -family, -scenario and -library match whole names")
	case *docs == "":
		text, err := page.Text(runs, true)
		fmt.Print(text)
		return err
	}
	return nil
}
