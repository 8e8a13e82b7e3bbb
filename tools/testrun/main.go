// Command testrun is go test with progress output: one line when a package's tests start, and one when they finish, with go test's result line. If a
// package fails, its output follows at once. The run ends with go test's result lines of all packages. The arguments are flags of go test. It tests
// every package below the current folder, in nested modules too. -p says how many run concurrently; one more runs that mostly waits. It fails if any
// package fails.
package main

import (
	"cmp"
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

// order is the order of the folders; "" stands for all others, the quick ones. One worker takes folders from the front, the others from the end. So
// faults, which needs most of the processor, runs beside tests that no stall disturbs. The last ones are quick, so all workers end together.
var order = []string{"faults", "backend/redlock", "backend/etcd", "backend/table", "backend/zookeeper", "backend/nats", "", "backend/postgres",
	"backend/redis", "backend/mysql", "cmd/lockport", "backend/table/sqlite", "fence/sqlfence", "conformance/exhibits/articles", "compare/hazards",
	"compare", "referee", "internal/house", "."}

// waiting are the folders whose tests mostly wait, and so disturb no others.
var waiting = []string{"adapters/gocron", "adapters/cron", "bench", "conformance/exhibits", "conformance", "backend/memory"}

type run struct {
	flags []string // of go test
	began time.Time
	all   int

	mu      sync.Mutex // guards the fields below
	left    []string   // folders still to test, in order, without the waiting ones
	done    int
	results []string // go test's result lines
	failed  error
}

func main() {
	folders, err := list()
	if err != nil {
		fail(err)
	}
	r := &run{flags: os.Args[1:], began: time.Now(), all: len(folders)}
	r.left = slices.DeleteFunc(folders, func(folder string) bool { return slices.Contains(waiting, folder) })
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
	slices.Sort(r.results)
	for _, line := range r.results {
		fmt.Println(line)
	}
	if r.failed != nil {
		fail(r.failed)
	}
}

// list returns the folders that have tests, in order.
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
	rank := func(folder string) int {
		if !slices.Contains(order, folder) {
			folder = ""
		}
		return slices.Index(order, folder)
	}
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

// test runs go test in folder. Without -v, go test prints only its result line and failed tests.
func (r *run) test(folder string) {
	r.logf("started  %s", folder)
	test := exec.Command("go", append([]string{"test", "."}, r.flags...)...)
	test.Dir = folder
	output, err := test.CombinedOutput()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done++
	for line := range strings.Lines(string(output)) {
		if strings.HasPrefix(line, "ok  \t") || strings.HasPrefix(line, "FAIL\t") {
			r.results = append(r.results, strings.TrimSpace(line))
		}
	}
	if err != nil {
		r.failed = errors.Join(r.failed, fmt.Errorf("%s: %w", folder, err))
	}
	r.logf("finished %s (%d of %d)\n%s", folder, r.done, r.all, output)
}

// logf prints a line, in one piece.
func (r *run) logf(format string, args ...any) {
	text := fmt.Sprintf("%6.0fs  "+format, append([]any{time.Since(r.began).Seconds()}, args...)...)
	_, _ = os.Stdout.WriteString(strings.TrimSuffix(text, "\n") + "\n")
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "testrun:", err)
	os.Exit(1)
}
