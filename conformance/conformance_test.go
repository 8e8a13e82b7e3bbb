package conformance

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/file"
	"github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/backend/memory/memorytest"
	"github.com/lockport/lockport/driver"
)

func TestMain(m *testing.M) {
	WorkerMain(openFolder)
	m.Run()
}

func openFolder(_ context.Context, dir string) (driver.Backend, error) {
	return file.NewBackend(file.Options{Dir: dir})
}

// onMemory is a Config without faults.
func onMemory() Config {
	server := memory.NewServer()
	return Config{
		Open: func(context.Context, string) (driver.Backend, error) {
			return memory.NewBackend(memory.Options{Server: server}), nil
		},
		Local: true,
	}
}

// allFaults returns faults that do nothing, and fail with cannot if it is not nil.
func allFaults(cannot error) Faults {
	f := func(context.Context) error { return cannot }
	return Faults{
		Restore: func() {},
		Sever:   f, Cut: f, Freeze: f,
		Delay:     func(context.Context, time.Duration) error { return cannot },
		DropReply: func(context.Context, Op) (<-chan struct{}, error) { return nil, cannot },
		CutAfter:  func(context.Context, int) (<-chan struct{}, error) { return nil, cannot },
		Remove:    func(context.Context, string) error { return cannot },
		Overwrite: func(context.Context, string) error { return cannot },
		Restart:   func(context.Context, bool) error { return cannot },
		Leftovers: func(context.Context, string) ([]string, error) { return nil, nil },
		Conns:     func(context.Context) (int, error) { return 0, nil },
		Requests:  func(context.Context) (int64, error) { return 0, cannot },
	}
}

// Cases are well formed, and no two share an ID.
func TestCases(t *testing.T) {
	seen := make(map[string]bool)
	groups := make(map[string]bool)
	last := ""
	for _, c := range Cases() {
		require.Regexp(t, `^[a-z][a-z-]*/[a-z][a-z-]*$`, c.ID())
		require.NotContains(t, seen, c.ID())
		require.Regexp(t, `^(P[0-9]+[ab]? [a-z -]+|contract|capabilities)(, P[0-9]+[ab]? [a-z -]+)?: `, c.Rule, c.ID())
		require.NotNil(t, c.run, c.ID())
		require.False(t, c.Quick && len(c.Needs) > 0, "%s: a quick case needs nothing", c.ID())
		if c.Group != last {
			require.NotContains(t, groups, c.Group, "a group is in one piece")
			groups[c.Group], last = true, c.Group
		}
		seen[c.ID()] = true
	}
	for _, promise := range []string{"P1 ", "P2 ", "P3a ", "P3b ", "P4 ", "P5 ", "P6 ", "P7 ", "P8 ", "P9 ", "P10 ", "P11 "} {
		about := func(c Case) bool { return strings.Contains(c.Rule, promise) }
		require.True(t, slices.ContainsFunc(Cases(), about), "no case is about %s", promise)
	}
}

// A case whose fault is missing, or cannot be produced, is not run, says what it needs, and does not count as passed.
func TestFaultsThatAreMissingAreNotRun(t *testing.T) {
	cannot := onMemory()
	cannot.Direct, cannot.Local, cannot.Faults = "direct", false, allFaults(errors.ErrUnsupported)
	for _, cfg := range []Config{onMemory(), cannot} {
		report := Run(t.Context(), cfg, Match(func(c Case) bool {
			return len(c.Needs) > 0 && (cfg.Local || !slices.Contains([]string{"processes", "Conns"}, c.Needs[0]))
		}))
		require.Empty(t, report.Error)
		require.NotEmpty(t, report.Results)
		for _, res := range report.Results {
			require.Equal(t, NotRun, res.Outcome, "%s: %s", res.ID(), res.Reason)
		}
		require.Equal(t, []any{len(report.Results), 0, true}, []any{report.NotRun, report.Passed, report.OK()})
	}
	full := Config{Direct: "somewhere", Faults: allFaults(nil)}
	for _, c := range Cases() {
		for _, need := range c.Needs {
			require.Empty(t, missing(full, need), c.ID())
			require.Contains(t, missing(Config{Local: true}, need), strings.ReplaceAll(need, "processes", "other processes"), c.ID())
		}
	}
}

// The quick cases pass on a sound backend. The report lists them in the order of Cases, also as JSON.
func TestReport(t *testing.T) {
	var progress []string
	report := Run(t.Context(), onMemory(), Quick(), Parallel(8), Progress(func(r Result) { progress = append(progress, r.ID()) }))
	require.True(t, report.OK(), "%+v", report.Results)
	require.Equal(t, "memory", report.Backend)
	require.Equal(t, DefaultTTL, report.TTL)
	require.Positive(t, report.Passed)
	require.Equal(t, len(report.Results), report.Passed+report.NotRun)
	require.Len(t, progress, len(report.Results))
	i := 0
	for _, c := range Cases() {
		if c.Quick {
			require.Equal(t, c.ID(), report.Results[i].ID())
			require.Contains(t, progress, c.ID())
			i++
		}
	}

	text, err := json.Marshal(report)
	require.NoError(t, err)
	var back Report
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, report.Results, back.Results)
	require.Contains(t, string(text), `"outcome":"not run"`)
}

// A run that cannot begin returns an error.
func TestRunThatCannotRun(t *testing.T) {
	report := Run(t.Context(), Config{})
	require.False(t, report.OK())
	require.Contains(t, report.Error, "Config.Open")

	for _, c := range []struct {
		backend driver.Backend
		err     error
		seen    string
	}{
		{nil, errors.New("no such server"), "no such server"},
		{nil, nil, "neither a backend nor an error"},
		{neverCloses{memory.NewBackend(memory.Options{})}, nil, "Close has not returned"},
	} {
		report = Run(t.Context(), Config{Open: func(context.Context, string) (driver.Backend, error) { return c.backend, c.err }})
		require.False(t, report.OK())
		require.Contains(t, report.Error, c.seen)
	}
}

// neverCloses is a backend whose Close hangs.
type neverCloses struct{ driver.Backend }

func (neverCloses) Close() error { select {} }

func runnerOf(t *testing.T, cfg Config) *runner {
	r, err := newRunner(t.Context(), cfg)
	require.NoError(t, err)
	return r
}

// A failed case reports the rule and what was seen, however it fails. A case that does not apply is not run.
func TestFailuresAreReported(t *testing.T) {
	seen := errors.New("what was seen")
	storm := func(last func() error) func(*Env) {
		return func(e *Env) {
			e.storm(3, func(ctx context.Context, i int) error {
				if i == 2 {
					return last()
				}
				<-ctx.Done()
				return nil
			})
		}
	}
	for name, c := range map[string]struct {
		run   func(*Env)
		seen  string // default: what was seen
		leave func(*Faults)
	}{
		"failf":     {run: func(e *Env) { e.failf("it is: %w", seen) }},
		"panic":     {run: func(*Env) { panic(seen) }},
		"goroutine": {run: func(e *Env) { e.fail(seen) }},
		"panic in a call": {run: func(e *Env) {
			_, _ = begin(e, "Wait", func(context.Context) (int, error) { panic(seen) }).ended(soon, "it panics")
		}},
		"panic in a storm": {run: storm(func() error { panic(seen) })},
		"storm":            {run: storm(func() error { return seen })},
		"restored":         {run: func(e *Env) { e.faulty = true; e.fail(seen) }},
		"limit":            {run: func(e *Env) { e.sleep(time.Hour) }, seen: "ran out of time"},
		"not run":          {run: func(e *Env) { e.notRun("no %s today", "queue") }, seen: "no queue today"},
		"connection left": {run: func(*Env) {}, seen: "no connection may be left", leave: func(f *Faults) {
			n := 0
			f.Conns = func(context.Context) (int, error) { n++; return n, nil }
		}},
		"late": {run: func(e *Env) { <-e.ctx.Done(); e.failf("what was seen") }, seen: "what was seen (the case had reached its limit of 1s)"},
		"key left": {run: func(*Env) {}, seen: "-queue", leave: func(f *Faults) {
			f.Leftovers = func(_ context.Context, prefix string) ([]string, error) { return []string{prefix + "queue"}, nil }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, restored, closed, want := onMemory(), false, false, Fail
			cfg.Faults.Restore = func() { restored = true }
			if c.leave != nil {
				c.leave(&cfg.Faults)
			}
			if name == "not run" {
				want = NotRun
			}
			r, rule := runnerOf(t, cfg), "P0 test: this is the rule"
			r.grace = 200 * time.Millisecond
			res := r.run(t.Context(), Case{Rule: rule, Alone: true, Limit: time.Second, run: func(e *Env) {
				e.after(func() { closed = true })
				c.run(e)
			}})
			require.Equal(t, want, res.Outcome)
			require.Contains(t, res.Reason, cmp.Or(c.seen, "what was seen"))
			require.Contains(t, res.Message(), rule)
			require.True(t, closed)
			require.Equal(t, name == "restored", restored)
		})
	}
}

// A case does not fail at once if a lock was lost while the machine stalled, or if a quick case lasted so long that its claims may have expired.
func TestALossWhileTheMachineStalls(t *testing.T) {
	for _, c := range []struct {
		stall     time.Duration
		late      bool // a claim of the case may have expired
		err       error
		bad, runs int // how many runs fail, and how many there must be
		want      Outcome
	}{
		{time.Minute, false, driver.ErrLost, 1, 2, Pass},
		{time.Minute, false, driver.ErrLost, 9, 1 + maxStalled, Fail},
		{time.Minute, false, errAway, 1, 2, Pass},
		{0, false, errAway, 1, 1, Fail},
		{time.Minute, false, errLimit, 1, 2, Pass},
		{time.Minute, false, errLimit, 9, 1 + maxStalled, Fail},
		{0, false, errLimit, 1, 1, Fail},
		{time.Minute, false, driver.ErrUnknown, 1, 1, Fail},
		{time.Minute, false, errNotOver, 1, 2, Pass},
		{0, false, errNotOver, 1, 1, Fail},
		{time.Minute, false, nil, 1, 2, Pass}, // a late grant
		{0, false, nil, 1, 1, Fail},
		{time.Minute, false, errGranted, 1, 1, Fail},
		{0, false, driver.ErrLost, 1, 1, Fail},
		{0, false, errGranted, 1, 1, Fail},
		{0, true, errGranted, 9, 1 + maxStalled, Fail},
		{0, true, driver.ErrUnknown, 1, 2, Pass}, // the server may have ended a session that was silent
		{0, false, errStalled, 1, 2, Pass},
		{0, false, errStalled, 9, 1 + maxStalled, NotRun},
		{0, false, errSlow, 1, 2, Pass},
		{0, false, errSlow, 9, 1 + maxStalled, Fail},
	} {
		r := runnerOf(t, onMemory())
		r.stalls = func() func() time.Duration { return func() time.Duration { return c.stall } }
		runs := 0
		res := r.run(t.Context(), Case{Quick: true, run: func(e *Env) {
			e.claims(time.Hour)
			if c.late {
				e.claims(-1)
			}
			if runs++; runs <= c.bad {
				if c.err == nil {
					e.start("Acquire", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }).granted(0, "the name is free")
				}
				e.check(fmt.Errorf("renewed: %w", c.err), "a renewal failed")
			}
		}})
		require.Equal(t, c.want, res.Outcome, res.Reason)
		require.Equal(t, c.runs, runs)
	}
}

// A sound lock does not fail the cases that hold claims without renewing them, if the server answers so late that the claims expire.
func TestServerThatStalls(t *testing.T) {
	for _, id := range []string{"exclusion/two-backends", "exclusion/many-at-once", "contract/held", "shared/together", "permits/together", "permits/many-at-once"} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			var slow memorytest.Faults
			server := memory.NewServer()
			cfg := Config{Local: true, MinTTL: 500 * time.Millisecond, Open: func(context.Context, string) (driver.Backend, error) {
				return memorytest.NewBackend(server, &slow), nil
			}}
			slow.DelayNext(memorytest.Claim, 0)
			slow.DelayNext(memorytest.Claim, cfg.MinTTL*5/2)
			report := Run(t.Context(), cfg, Match(func(c Case) bool { return c.ID() == id }))
			require.Len(t, report.Results, 1)
			require.Equal(t, Pass, report.Results[0].Outcome, report.Results[0].Message())
			require.Positive(t, report.Results[0].Again)
		})
	}
}

// A soak ends with the first lock that is lost, even while the machine stalls.
func TestSoakEndsWithTheFirstLoss(t *testing.T) {
	server, opened := memory.NewServer(), 0
	operator := memory.NewBackend(memory.Options{Server: server})
	cfg := Config{Local: true, MinTTL: 2 * time.Second, Open: func(context.Context, string) (driver.Backend, error) {
		opened++
		return memory.NewBackend(memory.Options{Server: server}), nil
	}}
	ctx, cancel := context.WithCancel(t.Context())
	stall := exec.CommandContext(ctx, "sh", "-c", "sleep 0.2; kill -STOP $PPID; sleep 0.5; kill -CONT $PPID")
	var others sync.WaitGroup
	others.Go(func() {
		for err := stall.Run(); err == nil && ctx.Err() == nil; <-time.After(time.Millisecond) {
			all, _ := operator.List(ctx, "")
			for _, st := range all {
				server.Lose(st.Name, nil)
			}
		}
	})
	report := Soak(ctx, cfg, SoakOptions{For: longCrowd - 1, Processes: 1, Goroutines: 16})
	cancel()
	others.Wait()
	require.Contains(t, report.Broken, driver.ErrLost.Error())
	require.Equal(t, 2, opened, "the first one reads the capabilities")
}

// A hold whose token does not rise is one broken rule: the next hold is alone.
func TestRegisterAfterARepeatedToken(t *testing.T) {
	c, err := lockport.New(memory.NewBackend(memory.Options{}))
	require.NoError(t, err)
	defer c.Close()
	first, next := newHolders(), newHolders()
	first.member, next.member, next.register = 1, 2, first.register
	hold := func(h *holders) error {
		l, err := c.Acquire(t.Context(), "name")
		require.NoError(t, err)
		defer l.Release(t.Context())
		return h.hold(t.Context(), 0, l, 0)
	}
	first.cells[0].token.Store(math.MaxUint64)
	require.ErrorContains(t, hold(first), "P2 fencing")
	first.cells[0].token.Store(0)
	require.NoError(t, hold(next))
}

// A leaked goroutine fails the case that started it, directly or not, and no other.
func TestGoroutineLeak(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	go func() { <-stop }()
	leak := Case{run: func(*Env) {
		go func() { go func() { <-stop }() }()
	}}
	clean := Case{run: func(*Env) {
		done := make(chan struct{})
		go close(done)
		<-done
	}}
	r := runnerOf(t, onMemory())
	r.grace = 300 * time.Millisecond
	leaked := r.run(t.Context(), leak)
	require.Equal(t, Fail, leaked.Outcome)
	require.Contains(t, leaked.Reason, "no goroutine may be left")
	require.Contains(t, leaked.Reason, "TestGoroutineLeak")
	passed := r.run(t.Context(), clean) // leak's goroutine still runs
	require.Equal(t, Pass, passed.Outcome, passed.Reason)
}

// Exclusive cases run alone. Cases that produce a fault run concurrently, one in each lane.
func TestOrderOfCases(t *testing.T) {
	cfg := onMemory()
	cfg.Faults = allFaults(nil)
	for lanes := range 3 {
		if lanes > 0 {
			cfg.Lanes = append(cfg.Lanes, Lane{Target: strconv.Itoa(lanes), Faults: allFaults(nil)})
		}
		var mu sync.Mutex
		at := make(map[string]int) // running cases, by what they use
		try := func(use func(*Env) string, most int, alone bool) func(*Env) {
			return func(e *Env) {
				add := func(n int) {
					mu.Lock()
					defer mu.Unlock()
					at["all"] += n
					at[use(e)] += n
					if at[use(e)] > most || alone && at["all"] > 1 {
						e.fail(fmt.Errorf("too many cases at once: %v", at))
					}
				}
				add(1)
				defer add(-1)
				e.sleep(5 * time.Millisecond)
			}
		}
		var cases []Case
		for range 5 {
			cases = append(cases,
				Case{Alone: true, run: try(func(*Env) string { return "alone" }, 1, true)},
				Case{Needs: []string{"Restart", "Cut"}, run: try(func(*Env) string { return "alone" }, 1, true)},
				Case{Needs: []string{"Cut"}, run: try(func(e *Env) string { return "lane " + e.cfg.Target }, 1, lanes == 0)},
				Case{run: try(func(*Env) string { return "together" }, 3, false)})
		}
		results := make([]Result, len(cases))
		runnerOf(t, cfg).runAll(t.Context(), cases, 3, func(i int, res Result) { results[i] = res })
		for _, res := range results {
			require.Equal(t, Pass, res.Outcome, res.Reason)
		}
	}
}

// A worker ends with its case, and at the end of its standard input.
func TestWorkerEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("not run: starts processes")
	}
	cfg := Config{Open: openFolder, Target: t.TempDir()}
	var p *process
	res := runnerOf(t, cfg).run(t.Context(), Case{run: func(e *Env) {
		p = e.process()
		q := e.process()
		e.check(q.End(soon), "End")
	}})
	require.Equal(t, Pass, res.Outcome, res.Reason)
	require.False(t, p.Alive())
	require.False(t, p.State().Success())
}

// A user who interrupts the suite has not seen a broken lock: the case that runs and the remaining ones are reported as not run.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	interrupted := Case{run: func(e *Env) { cancel(); e.sleep(time.Hour) }}
	results := make([]Result, 2)
	runnerOf(t, onMemory()).runAll(ctx, []Case{interrupted, interrupted}, 1, func(i int, res Result) { results[i] = res })
	for i, says := range []string{"the run ended meanwhile", "the run ended before"} {
		require.Equal(t, NotRun, results[i].Outcome)
		require.Contains(t, results[i].Reason, says)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	require.Empty(t, Soak(ctx, onMemory(), SoakOptions{For: time.Minute, Processes: 1, Goroutines: 4}).Broken)
}
