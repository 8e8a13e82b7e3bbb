// Command testrun is go test for people who wait: it prints a line for each package when its tests begin and when they end.
// The whole output of a package that fails follows at once, and the lines of go test close the run. Its arguments are the
// flags of go test. It tests every package below the current folder, nested modules included, as many at once as -p says, and beside them one that
// mostly waits. It fails if go test fails in any of them.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// slow are the folders whose tests take longest, the longest first. One package at a time is taken from the front of this list, and the others from its
// end, so that tests that measure time have quick neighbours. Folders that are not in it come after its end.
var slow = []string{"backend/table", "backend/zookeeper", "faults", "backend/nats", "backend/redlock", "backend/etcd", "backend/table/sqlite",
	"backend/mysql", "backend/redis", "cmd/lockport", "backend/postgres", "compare/hazards", "internal/house", "internal/lab/report", "fence/sqlfence",
	".", "internal/lab/servers", "compare", "fence/zkfence", "fence/redisfence", "backend/file", "fence/etcdfence"}

// waiting are the folders whose tests wait most of the time, and disturb nobody.
var waiting = []string{"conformance/exhibits", "conformance", "conformance/exhibits/articles", "adapters/gocron", "adapters/cron", "bench",
	"backend/memory/memorytest"}

// event is one line of go test -json: see go doc test2json.
type event struct {
	Action, Test, Output string
	Elapsed              float64
}

// run is a run of all tests.
type run struct {
	flags []string // of go test
	began time.Time
	all   int

	mu      sync.Mutex // guards what follows, and what is printed
	left    []string   // folders that are not tested yet, the slowest first; without the waiting ones
	done    int
	results map[string]string // by folder: the lines of go test about its package
	failed  error
}

func main() {
	folders, err := list()
	if err != nil {
		fail(err)
	}
	r := &run{flags: os.Args[1:], began: time.Now(), all: len(folders), results: make(map[string]string)}
	for _, folder := range folders {
		if !slices.Contains(waiting, folder) {
			r.left = append(r.left, folder)
		}
	}
	r.say("builds and tests %d packages", r.all)
	var all sync.WaitGroup
	for i := range atOnce(r.flags) {
		all.Go(func() {
			for folder := r.next(i == 0); folder != ""; folder = r.next(i == 0) {
				r.test(folder)
			}
		})
	}
	all.Go(func() {
		for _, folder := range waiting {
			r.test(folder)
		}
	})
	all.Wait()
	slices.Sort(folders)
	for _, folder := range folders {
		fmt.Print(r.results[folder])
	}
	if r.failed != nil {
		fail(r.failed)
	}
}

// list returns the folders that have tests, the slowest first.
func list() (folders []string, err error) {
	err = filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		folder := filepath.ToSlash(filepath.Dir(path))
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != "." && (entry.Name() == "testdata" || strings.ContainsAny(entry.Name()[:1], "._")):
			return fs.SkipDir
		case strings.HasSuffix(path, "_test.go") && !slices.Contains(folders, folder):
			folders = append(folders, folder)
		}
		return nil
	})
	rank := func(folder string) uint { return uint(slices.Index(slow, folder)) } // the greatest if it is not there
	slices.SortFunc(folders, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	return folders, err
}

// atOnce is the number of packages that the flag -p lets go test test at once.
func atOnce(flags []string) (n int) {
	for _, flag := range flags {
		_, _ = fmt.Sscanf(flag, "-p=%d", &n)
	}
	return max(1, n)
}

// next takes a folder that is not tested yet, from the front or the end; "": there is none.
func (r *run) next(front bool) (folder string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch last := len(r.left) - 1; {
	case last < 0:
		return ""
	case front:
		folder, r.left = r.left[0], r.left[1:]
	default:
		folder, r.left = r.left[last], r.left[:last]
	}
	return folder
}

// test runs go test in folder.
func (r *run) test(folder string) {
	test := exec.Command("go", slices.Concat([]string{"test", "-json"}, r.flags)...)
	test.Dir, test.Stderr = folder, os.Stderr
	out, err := test.StdoutPipe()
	if err == nil {
		err = test.Start()
	}
	if err != nil {
		fail(err)
	}
	var output []event
	var end event
	quiet := make(map[string]bool) // tests that passed or were skipped
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			break
		}
		e := r.show(folder, line)
		switch {
		case e.Action == "output":
			output = append(output, e)
		case e.Test != "":
			quiet[e.Test] = e.Action == "pass" || e.Action == "skip"
		case e.Action == "pass" || e.Action == "fail" || e.Action == "skip":
			end = e
		}
	}
	err = test.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done++
	cpu := test.ProcessState.UserTime() + test.ProcessState.SystemTime()
	r.say("ends    %s: %s after %.1fs, %.1fs of processors with its build (%d of %d)", folder, end.Action, end.Elapsed, cpu.Seconds(), r.done, r.all)
	for _, e := range output {
		if slices.Contains(r.flags, "-v") || err != nil && !quiet[e.Test] && !strings.HasPrefix(e.Output, "=== ") {
			fmt.Print(e.Output)
		}
	}
	if err != nil {
		r.failed = errors.Join(r.failed, fmt.Errorf("%s: %w", folder, err))
	}
}

// show prints a line of go test -json that must not wait for the end, and returns what else there is.
func (r *run) show(folder, line string) (e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch err := json.Unmarshal([]byte(line), &e); {
	case err != nil:
		fmt.Print(line)
	case e.Action == "start":
		r.say("begins  %s", folder)
	case e.Action == "build-output":
		fmt.Print(e.Output)
	case e.Action == "output" && e.Test == "" && isResult(e.Output):
		r.results[folder] += e.Output
	default:
		return e
	}
	return event{}
}

// isResult tells the lines of go test about a whole package from what its tests print.
func isResult(line string) bool {
	return strings.HasPrefix(line, "ok  \t") || strings.HasPrefix(line, "FAIL\t") || strings.HasPrefix(line, "?   \t")
}

// say prints a line. The mutex is held.
func (r *run) say(format string, args ...any) {
	fmt.Printf("%6.0fs  "+format+"\n", append([]any{time.Since(r.began).Seconds()}, args...)...)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "testrun:", err)
	os.Exit(1)
}
