package measure

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/worker"
)

// order tells a worker what to do. It answers when it is done.
type order struct {
	Do                 string // one of tasks
	Name               string
	Goroutines         int
	Own, Try           bool // of a loop: each goroutine has its own name, single attempts instead of waiting
	Warm, Fewest, Most int  // how often something is done; without a Most, as long as there is time
	For, Grace         time.Duration
	Begin              history.Instant
	Settle             bool // of usage: collect garbage first
}

// tasks are what a worker can do.
var tasks map[string]func(*laborer, order) (answer, error)

func init() { // handOff gives orders itself
	tasks = map[string]func(*laborer, order) (answer, error){
		"loop":    (*laborer).loop,    // acquire and release again and again: Packed has holds
		"handoff": (*laborer).handOff, // from a release to the grant of another goroutine: Packed has microseconds
		"acquire": (*laborer).acquire, // acquire and keep; At is when Acquire had returned
		"release": (*laborer).release, // release it; At is when Release was called
		"hold":    (*laborer).hold,    // acquire many names and keep them
		"wait":    (*laborer).wait,    // wait for a name until the worker ends
		"usage":   func(_ *laborer, o order) (answer, error) { return answer{After: usageNow(o.Settle)}, nil },
	}
}

// answer is what a worker says to an order.
type answer struct {
	At            history.Instant
	Took          time.Duration
	Packed        []byte // see worker.Pack
	Before, After usage
}

var kind = worker.Kind[Config, order, answer]{Variable: "LOCKPORT_MEASURE_WORKER"}

const (
	openTime   = 10 * time.Second // bounds the opening of a library
	grantLimit = 20 * time.Second // bounds the grant of a lock that is free, or was released at once
)

// WorkerMain is the first line of main, and of TestMain. In a process that was started as a worker it works, on what open opens, and exits. In any other
// process it returns at once.
func WorkerMain(open func(ctx context.Context, c Config) (Locker, error)) {
	kind.Main(func(ctx context.Context, c Config) (worker.Worker[order, answer], error) {
		opening, cancel := context.WithTimeout(ctx, openTime)
		defer cancel()
		locker, err := open(opening, c)
		return &laborer{ctx: ctx, locker: locker, kept: make(map[string]Release)}, err
	})
}

// laborer is the inside of a worker process.
type laborer struct {
	ctx     context.Context // ends when the parent wants no more, or is gone
	locker  Locker
	waiters sync.WaitGroup

	mu   sync.Mutex
	kept map[string]Release
	held []Release // many, none of which is asked for by name
}

// Do carries out an order.
func (l *laborer) Do(o order) (answer, error) {
	if do := tasks[o.Do]; do != nil {
		return do(l, o)
	}
	return answer{}, fmt.Errorf("unknown order %q", o.Do)
}

// Close releases what is held.
func (l *laborer) Close() {
	l.waiters.Wait()
	holds := slices.AppendSeq(l.held, maps.Values(l.kept))
	_ = together(len(holds), func(i int) error {
		if holds[i] == nil {
			return nil // it was not granted
		}
		return holds[i](context.Background())
	})
	_ = l.locker.Close()
}

func (l *laborer) acquire(o order) (answer, error) {
	ctx, cancel := context.WithTimeout(l.ctx, o.For)
	defer cancel()
	release, err := l.locker.Acquire(ctx, o.Name, true)
	a := answer{At: history.Now()}
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.kept[o.Name] = release
	}
	return a, err
}

func (l *laborer) release(o order) (answer, error) {
	l.mu.Lock()
	release := l.kept[o.Name]
	delete(l.kept, o.Name)
	l.mu.Unlock()
	if release == nil {
		return answer{}, fmt.Errorf("%q is not held", o.Name)
	}
	a := answer{At: history.Now()}
	return a, release(context.Background())
}

func (l *laborer) hold(o order) (answer, error) {
	l.held = make([]Release, o.Most)
	return answer{}, together(o.Most, func(i int) (err error) {
		l.held[i], err = l.locker.Acquire(l.ctx, fmt.Sprint(o.Name, "-", i), true)
		return err
	})
}

func (l *laborer) wait(o order) (answer, error) {
	for range o.Goroutines {
		l.waiters.Go(func() {
			if release, err := l.locker.Acquire(l.ctx, o.Name, true); err == nil {
				_ = release(context.Background())
			}
		})
	}
	return answer{}, nil
}

// together calls f with 0 to n-1, in 64 goroutines.
func together(n int, f func(i int) error) error {
	errs := make([]error, 64)
	var next atomic.Int64
	var all sync.WaitGroup
	for g := range errs {
		all.Go(func() {
			for i := next.Add(1); i <= int64(n) && errs[g] == nil; i = next.Add(1) {
				errs[g] = f(int(i - 1))
			}
		})
	}
	all.Wait()
	return worker.First(errs)
}
