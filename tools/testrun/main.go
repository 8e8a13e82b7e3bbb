// Command testrun is go test for people who wait: it prints a line for each package when its tests begin and when they end.
// The whole output of a package that fails follows at once, and the lines of go test close the run. Its arguments are the
// flags of go test, and its exit status is that of go test. It tests all packages of the module in the current folder.
//
// It uses the standard library alone, so that any module can run it: go run ../tools/testrun/main.go -race
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// slow are the packages whose tests take longest. They begin first, so that nothing long is left for the end.
var slow = []string{"faults", "backend/redlock", "backend/zookeeper", "cmd/lockport", "backend/etcd", "backend/mysql", "backend/postgres",
	"backend/redis", "fence/sqlfence", "fence/zkfence", "conformance/exhibits", "conformance", "internal/lab/report", "compare/costs",
	"conformance/exhibits/articles", "internal/lab/servers", "compare/hazards"}

// event is one line of go test -json: see go doc test2json.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

// run is what the tests of one package have printed so far.
type run struct {
	output []event
	quiet  map[string]bool // tests that passed or were skipped
	result []string        // the lines of go test about the package
}

func main() {
	flags := os.Args[1:]
	module, packages := list()
	if len(packages) == 0 {
		return // such as a module that only names tools
	}
	short := func(name string) string { return strings.TrimPrefix(strings.TrimPrefix(name, module), "/") }
	rank := func(name string) int {
		if i := slices.Index(slow, short(name)); i >= 0 {
			return i
		}
		return len(slow)
	}
	slices.SortStableFunc(packages, func(a, b string) int { return rank(a) - rank(b) })

	test := exec.Command("go", slices.Concat([]string{"test", "-json"}, flags, packages)...)
	test.Stderr = os.Stderr
	lines, err := test.StdoutPipe()
	if err == nil {
		err = test.Start()
	}
	if err != nil {
		fail(err)
	}
	verbose, began, done := slices.Contains(flags, "-v"), time.Now(), 0
	say := func(format string, args ...any) {
		fmt.Printf("%6.0fs  "+format+"\n", append([]any{time.Since(began).Seconds()}, args...)...)
	}
	say("builds and tests %d packages of %s", len(packages), module)
	runs, busy := make(map[string]*run), []string(nil)
	for line := range orTick(lines, time.Minute) {
		if line == "" {
			say("busy    %s", strings.Join(busy, ", "))
			continue
		}
		var e event
		if json.Unmarshal([]byte(line), &e) != nil {
			fmt.Print(line)
			continue
		}
		r := runs[e.Package]
		if r == nil {
			r = &run{quiet: make(map[string]bool)}
			runs[e.Package] = r
		}
		switch {
		case e.Action == "start":
			busy = append(busy, short(e.Package))
			say("begins  %s", short(e.Package))
		case e.Action == "build-output":
			fmt.Print(e.Output)
		case e.Action == "output" && e.Test == "" && isResult(e.Output):
			r.result = append(r.result, e.Output)
		case e.Action == "output":
			r.output = append(r.output, e)
		case e.Test != "":
			r.quiet[e.Test] = e.Action == "pass" || e.Action == "skip"
		case e.Action == "pass" || e.Action == "fail" || e.Action == "skip":
			done++
			busy = slices.DeleteFunc(busy, func(name string) bool { return name == short(e.Package) })
			say("ends    %s: %s after %.1fs (%d of %d)", short(e.Package), e.Action, e.Elapsed, done, len(packages))
			r.show(e.Action == "fail", verbose)
		}
	}
	err = test.Wait()
	for _, name := range packages {
		if r := runs[name]; r != nil {
			fmt.Print(strings.Join(r.result, ""))
		}
	}
	if err != nil {
		fail(err)
	}
}

// orTick returns the lines that come from r, and an empty one after each interval.
func orTick(r io.Reader, interval time.Duration) iter.Seq[string] {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for buffered := bufio.NewReader(r); ; {
			line, err := buffered.ReadString('\n')
			if err != nil {
				return
			}
			lines <- line
		}
	}()
	return func(yield func(string) bool) {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case line, ok := <-lines:
				if !ok || !yield(line) {
					return
				}
			case <-tick.C:
				if !yield("") {
					return
				}
			}
		}
	}
}

// isResult tells the lines of go test about a whole package from what its tests print.
func isResult(line string) bool {
	return strings.HasPrefix(line, "ok  \t") || strings.HasPrefix(line, "FAIL\t") || strings.HasPrefix(line, "?   \t")
}

// show prints what go test would print of a package that has ended, and forgets it.
func (r *run) show(failed, verbose bool) {
	for _, e := range r.output {
		if verbose || failed && !r.quiet[e.Test] && !strings.HasPrefix(e.Output, "=== ") {
			fmt.Print(e.Output)
		}
	}
	r.output = nil
}

// list returns the module's path, and its packages that have tests.
func list() (module string, packages []string) {
	list := exec.Command("go", "list", "-f", "{{.Module.Path}} {{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}", "./...")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		fail(err)
	}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		module = words[0]
		packages = append(packages, words[1:]...)
	}
	return module, packages
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "testrun:", err)
	os.Exit(1)
}
