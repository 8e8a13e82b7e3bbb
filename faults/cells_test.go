package faults_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	_ "github.com/lockport/lockport/backend/all" // workers open them
	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/history/linear"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/servers"
)

var (
	seedFlag = flag.Uint64("seed", 0, "seed of the fault runs; 0: a random one")
	phases   = flag.Int("phases", 1, "phases per safe or unavailable cell, in each lap")
	forTime  = flag.Duration("for", 0, "how long to begin laps through the table, each in a random order; 0: one lap, in order")
	full     = flag.Bool("full", false, "also play what another environment of the same backend shows, and variants")
	part     = flag.Int("part", 3, "without -full and -run: play a random one of so many cells; 1: all")
	lanes    = flag.Int("lanes", 6, "how many environments run at a time; their phases mostly wait")
)

func TestMain(m *testing.M) {
	play.WorkerMain()
	flag.Parse()
	if *seedFlag == 0 {
		*seedFlag = rand.Uint64() >> 16
	}
	if err := flag.Set("test.parallel", strconv.Itoa(len(environment.All()))); err != nil { // lanes is the limit: the tests mostly wait
		panic(err)
	}
	os.Exit(m.Run())
}

// Every cell keeps its statement: a safe one is never seen to fail, and an unsafe one is.
func TestCells(t *testing.T) {
	if testing.Short() {
		t.Skip("not run: starts servers, and takes minutes")
	}
	t.Parallel()
	t.Logf("to replay: -seed=%d", *seedFlag)
	r := &record{begun: time.Now(), free: make(chan struct{}, *lanes), sums: make(map[string]sum)}
	t.Cleanup(func() { r.finish(t) })
	all, choice := environment.All(), rand.New(rand.NewPCG(*seedFlag, 0))
	sampled := !*full && flag.Lookup("test.run").Value.String() == ""
	cells := make(map[string][]play.Cell)
	for _, a := range all {
		cells[a.Name] = slices.DeleteFunc(slices.Clone(faults.Cells(a.Name)), func(c play.Cell) bool {
			return !*full && faults.OnlyInSoak(&a, &c) || sampled && choice.IntN(*part) > 0
		})
	}
	all = slices.DeleteFunc(all, func(a environment.Environment) bool { return len(cells[a.Name]) == 0 })
	// Parallel subtests resume in reverse order, so the longest one begins first.
	slices.SortStableFunc(all, func(a, b environment.Environment) int { return len(cells[a.Name]) - len(cells[b.Name]) })
	for _, a := range all {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			for n := 0; n == 0 || time.Since(r.begun) < *forTime && t.Context().Err() == nil; n++ {
				lap(t, &a, cells[a.Name], n, r)
			}
		})
	}
}

// lap starts the servers of a and plays cells there.
func lap(t *testing.T, a *environment.Environment, cells []play.Cell, n int, r *record) {
	r.free <- struct{}{}
	defer func() { <-r.free }() // even if the test is skipped
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	w, err := a.Open(ctx)
	servers.NeedInstalled(t, err)
	defer func() { require.NoError(t, w.Close()) }()
	order := rand.New(rand.NewPCG(*seedFlag, uint64(n))).Perm(len(cells))
	if *forTime == 0 {
		slices.Sort(order)
	}
	play.Each(order, func(i int) bool { return cells[i].Harmless }, make(chan struct{}, sideBySide), func(i int) {
		c := &cells[i]
		if !t.Run(c.Fault, func(t *testing.T) { checkCell(t, w, c, *seedFlag+uint64(n**phases), r) }) {
			t.Logf("the servers of %s:\n%s", a.Name, w.Log())
		}
	})
}

// sideBySide is how many harmless cells run on the same servers at a time.
const sideBySide = 4

// checkCell plays a cell as often as it needs.
func checkCell(t *testing.T, w *environment.Running, c *play.Cell, seed uint64, r *record) {
	plays := *phases
	if !c.Outcome.IsSafe() {
		plays = max(1, c.Tries)
	}
	var last *play.Played
	for i := range plays {
		played, v := playOnce(t, w, c, seed+uint64(i))
		last = played
		r.add(w.Name, v)
		if !c.Outcome.IsSafe() && v.Seen() {
			return
		}
	}
	if !c.Outcome.IsSafe() && !c.Argued {
		t.Errorf("%s\nit is stated to be %s, but in %d plays no two believed they held one lock", again(t, last, seed), c.Outcome, plays)
	}
}

// playOnce plays a phase and judges it. A broken promise is an error of t, with the seed that replays it.
func playOnce(t *testing.T, w *environment.Running, c *play.Cell, seed uint64) (*play.Played, *faults.Verdict) {
	begun, revivals := time.Now(), w.Revivals()
	played, err := play.Play(t.Context(), w, c, seed)
	if w.Revivals() > revivals { // as PgBouncer 1.18 may; that is another fault
		t.Logf("a server ended by itself, so the phase is played again:\n%s", w.Log())
		return playOnce(t, w, c, seed)
	}
	if missing, ok := errors.AsType[*servers.NotInstalled](err); ok { // a program that makes the fault, such as a compiler
		servers.NeedInstalled(t, missing)
	}
	if errors.Is(err, errors.ErrUnsupported) && runtime.GOOS == "windows" { // it cannot stop a process
		t.Skip(err)
	}
	require.NotNil(t, played, err)
	v, judged := faults.Judge(played)
	if err != nil || judged != nil || len(v.Breaches) > 0 {
		t.Error(again(t, played, seed))
	}
	if v != nil {
		for _, b := range v.Breaches { // they may explain the error
			t.Error(b)
		}
	}
	require.NoError(t, err)
	require.NoError(t, judged)
	checkLinearizable(t, played, v)
	t.Logf("%s: %d holds, %d events, %v", c.Outcome, len(v.History.Spans), len(v.History.Events), time.Since(begun).Round(time.Millisecond))
	return played, v
}

// again returns the flags that play a cell again from a seed on, and the file with the history of a phase.
func again(t *testing.T, played *play.Played, seed uint64) string {
	long := map[bool]string{true: " -full"}[*full] // without it, the cell is not played
	return fmt.Sprintf("-run='TestCells/%s$/%s$' -seed=%d%s; its history is %s", played.Environment.Name, played.Cell.Fault, seed, long, keep(t, played))
}

// checkLinearizable judges by linearizability. Safe outcomes must pass. Others must fail, unless the fault let the server end claims at once.
func checkLinearizable(t *testing.T, played *play.Played, v *faults.Verdict) {
	rules := linear.Rules{Margin: played.Environment.Margin, Sessions: played.Environment.Sessions, Gone: played.Cell.Gone}
	err := linear.Check(v.History, rules, 5*time.Minute) // under the race detector, on a busy machine
	switch {
	case played.Cell.Outcome.IsSafe() || played.Cell.Gone:
		if err != nil {
			t.Errorf("%v\n%s", err, again(t, played, played.Seed))
		}
	case v.Seen() && err == nil:
		t.Errorf("two believed they held one lock, but the history is linearizable\n%s", again(t, played, played.Seed))
	}
}

// keep writes the history to a file outside the test's folders.
func keep(t *testing.T, played *play.Played) string {
	var lines strings.Builder
	out := json.NewEncoder(&lines)
	for _, e := range played.Events {
		require.NoError(t, out.Encode(e))
	}
	file := filepath.Join(os.TempDir(), fmt.Sprintf("lockport-history-%s-%s-%d.jsonl", played.Environment.Name, played.Cell.Fault, played.Seed))
	require.NoError(t, os.WriteFile(file, []byte(lines.String()), 0o600))
	return file
}

// record sums up what phases have shown. Safe for concurrent use.
type record struct {
	begun time.Time
	free  chan struct{} // has an element for each environment that runs

	mu   sync.Mutex
	sums map[string]sum // by environment
}

type sum struct{ phases, acquisitions, readers, permits int }

// add counts a phase.
func (r *record) add(environment string, v *faults.Verdict) {
	readers, permits := v.History.Joins()
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sums[environment]
	r.sums[environment] = sum{s.phases + 1, s.acquisitions + len(v.History.Spans), s.readers + readers, s.permits + permits}
}

// finish fails t if storms never had two readers, or two permits, at once.
func (r *record) finish(t *testing.T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range environment.All() {
		const many = 300 // acquisitions that only storms reach
		s := r.sums[a.Name]
		t.Logf("%s: %d phases, %d acquisitions", a.Name, s.phases, s.acquisitions)
		if s.acquisitions > many && (a.Readers && s.readers == 0 || a.Permits && s.permits == 0) {
			t.Errorf("of %d acquisitions on %s, %d readers joined another, and %d permits were granted beside another: the storms do not test them",
				s.acquisitions, a.Name, s.readers, s.permits)
		}
	}
}
