// Command testrun is go test for people who wait: it prints a line for each package when its tests begin and when they end.
// The whole output of a package that fails follows at once, and the lines of go test close the run. Its arguments are the
// flags of go test. It tests all modules of the repository whose root is the current folder, the nested ones first, as many at once as -p allows.
// It fails if go test fails in any of them.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
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

// module is a module of the repository, with those of its packages that have tests.
type module struct {
	folder, path string
	packages     []string
}

func main() {
	flags := os.Args[1:]
	modules := list()
	root := modules[len(modules)-1]
	short := func(name string) string { return strings.TrimPrefix(strings.TrimPrefix(name, root.path), "/") }
	rank := func(name string) int {
		if i := slices.Index(slow, short(name)); i >= 0 {
			return i
		}
		return len(slow)
	}
	var packages []string
	for _, m := range modules {
		slices.SortStableFunc(m.packages, func(a, b string) int { return rank(a) - rank(b) })
		packages = append(packages, m.packages...)
	}
	slices.SortStableFunc(modules[:len(modules)-1], func(a, b module) int { return rank(a.packages[0]) - rank(b.packages[0]) })
	lines, failed := test(modules, flags)
	verbose, began, done := slices.Contains(flags, "-v"), time.Now(), 0
	say := func(format string, args ...any) {
		fmt.Printf("%6.0fs  "+format+"\n", append([]any{time.Since(began).Seconds()}, args...)...)
	}
	say("builds and tests %d packages in %d modules", len(packages), len(modules))
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
	for _, name := range packages {
		if r := runs[name]; r != nil {
			fmt.Print(strings.Join(r.result, ""))
		}
	}
	if err := failed(); err != nil {
		fail(err)
	}
}

// test runs go test in the nested modules, as many at once as it tests packages, and then in the root. It returns the lines that go test prints, and,
// for when these have ended, the error of a run that failed.
func test(modules []module, flags []string) (lines <-chan string, failed func() error) {
	all, last := make(chan string), len(modules)-1
	errs := make([]error, len(modules))
	go func() {
		defer close(all)
		order := make(chan int, last)
		for i := range last {
			order <- i
		}
		close(order)
		var nested sync.WaitGroup
		for range atOnce(flags) {
			nested.Go(func() {
				for i := range order {
					errs[i] = modules[i].test(all, append(slices.Clip(flags), "-p=1"))
				}
			})
		}
		nested.Wait()
		errs[last] = modules[last].test(all, flags)
	}()
	return all, func() error { return errors.Join(errs...) }
}

// atOnce is the number of packages that the flag -p lets go test test at once.
func atOnce(flags []string) (n int) {
	for _, flag := range flags {
		_, _ = fmt.Sscanf(flag, "-p=%d", &n)
	}
	return max(1, n)
}

// test runs go test for the packages of m, and sends the lines that it prints.
func (m module) test(lines chan<- string, flags []string) error {
	test := exec.Command("go", slices.Concat([]string{"test", "-json"}, flags, m.packages)...)
	test.Dir, test.Stderr = m.folder, os.Stderr
	out, err := test.StdoutPipe()
	if err == nil {
		err = test.Start()
	}
	if err != nil {
		return err
	}
	for buffered := bufio.NewReader(out); ; {
		line, err := buffered.ReadString('\n')
		if err != nil {
			return test.Wait()
		}
		lines <- line
	}
}

// orTick returns the lines, and an empty one after each interval.
func orTick(lines <-chan string, interval time.Duration) iter.Seq[string] {
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

// list returns the modules that have tests. The root is the last.
func list() (modules []module) {
	for _, folder := range strings.Fields(output(".", "scripts/modules.sh")) {
		m := module{folder: folder}
		for line := range strings.Lines(output(folder, "go", "list", "-f", "{{.Module.Path}} {{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}", "./...")) {
			words := strings.Fields(line)
			m.path = words[0]
			m.packages = append(m.packages, words[1:]...)
		}
		if len(m.packages) > 0 { // not a module that only names tools
			modules = append(modules, m)
		}
	}
	return modules
}

// output returns what a command prints that runs in folder.
func output(folder, name string, args ...string) string {
	command := exec.Command(name, args...)
	command.Dir, command.Stderr = folder, os.Stderr
	out, err := command.Output()
	if err != nil {
		fail(err)
	}
	return string(out)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "testrun:", err)
	os.Exit(1)
}
