// Command testrun is go test with progress output: one line when a package's tests start and one when they finish. If a package fails, its whole
// output follows at once. The run ends with go test's result lines. The arguments are flags of go test. It tests every package below the current
// folder, in nested modules too. -p says how many run concurrently; one more runs that mostly waits. It fails if any package fails.
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

// slow are the folders with the longest tests, longest first. One worker takes folders from the front, the others from the end, so that
// timing-sensitive tests run beside quick ones. Unlisted folders come after the list's end.
var slow = []string{"backend/table", "backend/zookeeper", "faults", "backend/nats", "backend/redlock", "backend/etcd", "backend/table/sqlite",
	"backend/mysql", "backend/redis", "cmd/lockport", "backend/postgres", "compare/hazards", "internal/house", "internal/lab/report", "fence/sqlfence",
	".", "internal/lab/servers", "compare", "fence/zkfence", "fence/redisfence", "backend/file", "fence/etcdfence"}

// waiting are the folders whose tests mostly wait, and so disturb no others.
var waiting = []string{"conformance/exhibits", "conformance", "conformance/exhibits/articles", "adapters/gocron", "adapters/cron", "bench",
	"backend/memory"}

// event is a line of go test -json: see go doc test2json.
type event struct {
	Action, Test, Output string
	Elapsed              float64
}

// run is a run of all tests.
type run struct {
	flags []string // of go test
	began time.Time
	all   int

	mu      sync.Mutex // guards the fields below, and the output
	left    []string   // folders still to test, slowest first, without the waiting ones
	done    int
	results map[string]string // go test's result lines, by folder
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
	r.logf("building and testing %d packages", r.all)
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
	rank := func(folder string) uint { return uint(slices.Index(slow, folder)) } // unlisted: -1, the greatest uint
	slices.SortFunc(folders, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	return folders, err
}

// atOnce returns the number of packages that -p lets go test run concurrently.
func atOnce(flags []string) (n int) {
	for _, flag := range flags {
		_, _ = fmt.Sscanf(flag, "-p=%d", &n)
	}
	return max(1, n)
}

// next takes the next folder to test, from the front or the end; "" if none is left.
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
	quiet := make(map[string]bool) // tests that passed or were skipped: not printed
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
	r.logf("finished %s: %s in %.1fs, %.1fs CPU including the build (%d of %d)", folder, end.Action, end.Elapsed, cpu.Seconds(), r.done, r.all)
	for _, e := range output {
		if slices.Contains(r.flags, "-v") || err != nil && !quiet[e.Test] && !strings.HasPrefix(e.Output, "=== ") {
			fmt.Print(e.Output)
		}
	}
	if err != nil {
		r.failed = errors.Join(r.failed, fmt.Errorf("%s: %w", folder, err))
	}
}

// show handles a line of go test -json. It prints what must appear at once, and returns all other events.
func (r *run) show(folder, line string) (e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch err := json.Unmarshal([]byte(line), &e); {
	case err != nil:
		fmt.Print(line)
	case e.Action == "start":
		r.logf("started  %s", folder)
	case e.Action == "build-output":
		fmt.Print(e.Output)
	case e.Action == "output" && e.Test == "" && isResult(e.Output):
		r.results[folder] += e.Output
	default:
		return e
	}
	return event{}
}

// isResult reports whether a line is go test's result for a package, not output of its tests.
func isResult(line string) bool {
	return strings.HasPrefix(line, "ok  \t") || strings.HasPrefix(line, "FAIL\t") || strings.HasPrefix(line, "?   \t")
}

// logf prints a line. The caller holds the mutex, or is alone.
func (r *run) logf(format string, args ...any) {
	fmt.Printf("%6.0fs  "+format+"\n", append([]any{time.Since(r.began).Seconds()}, args...)...)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "testrun:", err)
	os.Exit(1)
}
