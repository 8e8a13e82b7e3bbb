package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockport/lockport/driver"
)

// runner runs cases against a Config, or in one lane of it.
type runner struct {
	cfg    Config
	caps   driver.Capabilities
	ttl    time.Duration
	grace  time.Duration                         // leakGrace
	stalls func() (longest func() time.Duration) // a test replaces it
}

// errNotRun ends a case that does not apply, or cannot be run.
type errNotRun struct{ reason string }

func (e errNotRun) Error() string { return "not run: " + e.reason }

// stuckGrace is how long the runner waits for a case after its limit.
const stuckGrace = 10 * time.Second

// newRunner opens the backend once, to read its Capabilities.
func newRunner(ctx context.Context, cfg Config) (*runner, error) {
	if workers.Is() {
		return nil, errors.New("conformance: this process is a worker of the suite: call conformance.WorkerMain before anything else")
	}
	if cfg.Open == nil {
		return nil, errors.New("conformance: Config.Open is missing")
	}
	b, err := cfg.Open(ctx, cfg.Target)
	if err != nil {
		return nil, fmt.Errorf("conformance: the backend cannot be opened: %w", err)
	}
	if b == nil {
		return nil, errors.New("conformance: Config.Open returned neither a backend nor an error")
	}
	caps, ttl := b.Capabilities(), cfg.MinTTL
	if ttl <= 0 {
		ttl = DefaultTTL
	}
	closed := make(chan error, 1)
	go func() { closed <- b.Close() }()
	select {
	case err = <-closed:
	case <-time.After(callTime):
		err = fmt.Errorf("Close has not returned after %v", callTime)
	}
	if err != nil {
		return nil, fmt.Errorf("conformance: the backend cannot be closed: %w", err)
	}
	return &runner{cfg: cfg, caps: caps, ttl: allowedTTL(caps, ttl), grace: leakGrace,
		stalls: func() func() time.Duration { return stalls(func() {}) }}, nil
}

// runAll runs cases and calls done with each index and result, possibly concurrently. It runs parallel cases at a time, beside
// them those with faults in the lanes, and then the rest one by one.
func (r *runner) runAll(ctx context.Context, cases []Case, parallel int, done func(i int, res Result)) {
	var together, inLanes, alone []int
	for i, c := range cases {
		switch {
		case c.exclusive() || c.faulty() && len(r.cfg.Lanes) == 0:
			alone = append(alone, i)
		case c.faulty():
			inLanes = append(inLanes, i)
		default:
			together = append(together, i)
		}
	}
	var all sync.WaitGroup
	work := func(queue []int, runners []*runner) {
		next := make(chan int, len(queue))
		for _, i := range queue {
			next <- i
		}
		close(next)
		for _, r := range runners {
			all.Go(func() {
				for i := range next {
					done(i, r.run(ctx, cases[i]))
				}
			})
		}
	}
	var lanes []*runner
	for _, lane := range r.cfg.Lanes {
		there := *r
		there.cfg.Target, there.cfg.Faults = lane.Target, lane.Faults
		lanes = append(lanes, &there)
	}
	work(together, slices.Repeat([]*runner{r}, parallel))
	work(inLanes, lanes)
	all.Wait()
	work(alone, []*runner{r})
	all.Wait()
}

// run runs one case and checks that it left nothing behind.
func (r *runner) run(ctx context.Context, c Case) Result {
	res := Result{Group: c.Group, Name: c.Name, Rule: c.Rule, Outcome: NotRun}
	for _, n := range c.Needs {
		if res.Reason = missing(r.cfg, n); res.Reason != "" {
			return res
		}
	}
	if ctx.Err() != nil {
		res.Reason = "the run ended before: " + ctx.Err().Error()
		return res
	}
	start := time.Now()
	var err error
	res.Again, err = r.attempt(ctx, c)
	res.Took = time.Since(start)
	if notRun, ok := errors.AsType[errNotRun](err); ok {
		res.Reason = notRun.reason
	} else if err != nil && ctx.Err() != nil { // a case that is cut off proves nothing
		res.Reason = "the run ended meanwhile: " + ctx.Err().Error()
	} else if err != nil {
		res.Outcome, res.Reason = Fail, err.Error()
	} else {
		res.Outcome = Pass
	}
	return res
}

// once runs c in a goroutine with its own profiler label, which all goroutines that c starts inherit: leaks are found by it.
func (r *runner) once(ctx context.Context, c Case) error {
	limit, start := cmp.Or(c.Limit, 20*time.Second+20*r.ttl), time.Now()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	e := &Env{runner: r, ctx: ctx, prefix: "lpc-" + randomHex(6) + "-"}

	conns, err := e.conns()
	if err != nil {
		return fmt.Errorf("Faults.Conns: %w", err)
	}
	done, took := make(chan struct{}), time.Duration(0)
	go func() {
		pprof.SetGoroutineLabels(pprof.WithLabels(ctx, pprof.Labels(goroutineLabel, e.prefix)))
		defer close(done)
		defer e.cleanUp()
		defer e.catch()
		defer func() { took = time.Since(start) }()
		c.run(e)
	}()
	select {
	case <-done:
	case <-time.After(limit + stuckGrace):
		_, stacks := labeled(e.prefix)
		seen := cmp.Or(e.failure(), errors.New("no failure was seen"))
		return fmt.Errorf("%v; then the case hung: its limit was %v; its goroutines:\n%s", seen, limit, stacks)
	}
	if err := e.failure(); err != nil { // leaks of a failed case add nothing
		if took >= limit {
			err = fmt.Errorf("%w (%w of %v)", err, errLimit, limit)
		}
		return err
	}
	return e.leaks(c, conns)
}

// goroutineLabel is the key of the profiler label that attributes a goroutine to its case.
const goroutineLabel = "lockport-conformance"

// labeled counts the goroutines with a label, and returns their stacks.
func labeled(label string) (n int, stacks string) {
	var all strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&all, 1) // a Builder's writes do not fail
	_, text, _ := strings.Cut(all.String(), "\n")  // the first line counts all
	var mine []string
	for _, stack := range strings.Split(text, "\n\n") {
		if strings.Contains(stack, `"`+goroutineLabel+`":"`+label+`"`) {
			same, _, _ := strings.Cut(stack, " ") // "12 @ 0x4323ee …": 12 goroutines have this stack
			k, _ := strconv.Atoi(same)
			n, mine = n+k, append(mine, stack)
		}
	}
	return n, strings.Join(mine, "\n\n")
}

// noGoroutines waits up to grace until no goroutine has a label, and returns an error with their stacks if some still do.
func noGoroutines(ctx context.Context, label string, grace time.Duration) error {
	var left string
	if !poll(ctx, grace, func() bool { _, left = labeled(label); return left == "" }) {
		return fmt.Errorf("P8 no leaks: when all is closed, no goroutine may be left; there are:\n%s", left)
	}
	return nil
}

// A machine that stalls makes a sound backend late. Cases that measure time measure the stalls too, and do not blame the
// backend for them.

// stalls calls look repeatedly until longest is first called. longest returns the longest time that look and the scheduler took.
func stalls(look func()) (longest func() time.Duration) {
	const pause = 10 * time.Millisecond
	stop, over, most := make(chan struct{}), make(chan struct{}), time.Duration(0)
	go func() {
		defer close(over)
		for stopped := false; !stopped; {
			start := time.Now()
			select {
			case <-stop:
				stopped = true // the stall that ended the case counts too
			case <-time.After(pause):
				look()
			}
			most = max(most, time.Since(start)-pause)
		}
	}()
	return sync.OnceValue(func() time.Duration { close(stop); <-over; return most })
}

// maxStalled is how often a case may start again because of a stall.
const maxStalled = 2

// errStalled ends a run that shows nothing, because machine or server were too slow.
var errStalled = errNotRun{"the machine stalls for too long"}

// stalled ends the case's run with errStalled.
func (e *Env) stalled() { e.notRun("%s", errStalled.reason) }

// errExpired is a failure that was seen when a claim of the case may have expired.
type errExpired struct{ error }

func (e errExpired) Unwrap() error { return e.error }

// These are parts of failures that a slow machine or server may explain.
var (
	errSlow       = errors.New("the machine or the server was slow")
	errNotOver    = errors.New("has not returned")
	errNotGranted = errors.New("was not granted")
	errAway       = errors.New("the server was away")            // when a free name was acquired
	errLimit      = errors.New("the case had reached its limit") // after which its calls fail
)

// attempt runs a case, and again if the failure may come from a stall or, in a quick case, which renews few claims, from their expiry. n is how often
// it started again.
func (r *runner) attempt(ctx context.Context, c Case) (n int, err error) {
	for ; ; n++ {
		longest := r.stalls()
		err = r.once(ctx, c)
		_, late := errors.AsType[errExpired](err)
		expired := late && c.Quick && r.caps.Ends != driver.EndsProcess // a session that is silent for the TTL ends too
		stall := longest()
		overdue := !c.Quick && stall >= r.ttl*5/8 // claims are renewed after a quarter of the TTL
		excused := matches(err, errStalled, errSlow) ||
			matches(err, driver.ErrLost, errAway, errLimit) && (stall >= r.ttl/8 || expired) ||
			matches(err, errNotOver, errNotGranted) && stall >= endTime/4 ||
			matches(err, driver.ErrUnknown, errGranted, errNone, errMissing) && (expired || overdue)
		if n == maxStalled || !excused {
			return n, err
		}
	}
}
