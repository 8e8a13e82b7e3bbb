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
	Do   task
	Name string `json:",omitempty"`
	// Goroutines is how many take part. Most is how often each does it, or how many names there are.
	Goroutines, Most int           `json:",omitempty"`
	For              time.Duration `json:",omitempty"`
	// Begin is when to begin, or after which something must have happened.
	Begin history.Instant `json:",omitempty"`
	// Grace is how much longer than For a goroutine may wait for a hold that it asked for in time.
	Grace time.Duration `json:",omitempty"`
	// Flag is for cycles: try instead of waiting; for usage: collect garbage first.
	Flag bool `json:",omitempty"`
}

type task string

const (
	doPing    task = "ping"    // bare round trips: Samples
	doCycle   task = "cycle"   // acquire and release, each goroutine its own name: Packed has cycles, Took, Before, After
	doContend task = "contend" // acquire and release, all the same name: Packed has holds, Before, After
	doHandOff task = "handoff" // from a release to the grant of another goroutine: Samples
	doAcquire task = "acquire" // acquire and keep; At is when Acquire had returned
	doRelease task = "release" // release it; At is when Release was called
	doHold    task = "hold"    // acquire many names and keep them
	doWait    task = "wait"    // wait for a name until the worker ends; answered when all have begun to
	doUsage   task = "usage"   // After
	doProbe   task = "probe"   // acquire and release fresh names one after the other; answered at once
	doProbed  task = "probed"  // end that when it has succeeded after Begin: Packed has the instants of successes
)

// answer is what a worker says to an order. Samples are microseconds.
type answer struct {
	Question      string          `json:",omitempty"`
	Samples       []float64       `json:",omitempty"`
	At            history.Instant `json:",omitempty"`
	Took          time.Duration   `json:",omitempty"`
	Packed        []byte          `json:",omitempty"` // see worker.Pack
	Before, After Usage
}

var kind = worker.Kind[Config, order, answer]{Variable: "LOCKPORT_MEASURE_WORKER"}

// openTime bounds the opening of a library.
const openTime = 10 * time.Second

// WorkerMain is the first line of main, and of TestMain. In a process that was started as a worker it works, on what open opens, and exits. In any other
// process it returns at once.
func WorkerMain(open func(ctx context.Context, c Config) (Locker, error)) {
	kind.Main(func(ctx context.Context, c Config) (worker.Worker[order, answer], error) {
		l := &laborer{ctx: ctx, kept: make(map[string]Hold)}
		ctx, cancel := context.WithTimeout(ctx, openTime)
		defer cancel()
		var err error
		if l.locker, err = open(ctx, c); err != nil {
			return nil, err
		}
		if l.pinger, _ = l.locker.(Pinger); l.pinger != nil && (!c.Pings || l.pinger.Question() == "") {
			l.pinger = nil
		}
		return l, nil
	})
}

// laborer is the inside of a worker process.
type laborer struct {
	ctx        context.Context // ends when the parent wants no more, or is gone
	locker     Locker
	pinger     Pinger         // may be nil
	background sync.WaitGroup // what goes on after an order was answered

	mu    sync.Mutex
	kept  map[string]Hold
	held  []Hold // many, none of which is asked for by name
	probe *probe
}

// Close releases what is held.
func (l *laborer) Close() {
	l.background.Wait()
	holds := slices.DeleteFunc(slices.Concat(l.held, slices.Collect(maps.Values(l.kept))), func(h Hold) bool { return h == nil })
	together(len(holds), func(i int) error { return holds[i].Release(context.Background()) })
	_ = l.locker.Close()
}

// Do carries out an order.
func (l *laborer) Do(o order) (answer, error) {
	switch o.Do {
	case doPing:
		return l.ping(o)
	case doCycle:
		return l.cycle(o)
	case doContend:
		return l.contend(o)
	case doHandOff:
		return l.handOff(o)
	case doAcquire:
		return l.acquire(o)
	case doRelease:
		return l.release(o)
	case doHold:
		return l.hold(o)
	case doWait:
		return l.wait(o)
	case doUsage:
		return answer{After: usageNow(o.Flag)}, nil
	case doProbe:
		return l.beginProbe(o)
	case doProbed:
		return l.endProbe(o)
	}
	return answer{}, fmt.Errorf("unknown order %q", o.Do)
}

func (l *laborer) acquire(o order) (a answer, err error) {
	ctx, cancel := context.WithTimeout(l.ctx, o.For)
	defer cancel()
	h, err := l.locker.Acquire(ctx, o.Name)
	a.At = history.Now()
	if err != nil {
		return a, err
	}
	l.mu.Lock()
	l.kept[o.Name] = h
	l.mu.Unlock()
	return a, nil
}

func (l *laborer) release(o order) (answer, error) {
	l.mu.Lock()
	h := l.kept[o.Name]
	delete(l.kept, o.Name)
	l.mu.Unlock()
	if h == nil {
		return answer{}, fmt.Errorf("%q is not held", o.Name)
	}
	a := answer{At: history.Now()}
	return a, h.Release(context.Background())
}

// hold acquires o.Most names and keeps them.
func (l *laborer) hold(o order) (answer, error) {
	l.held = make([]Hold, o.Most)
	return answer{}, together(o.Most, func(i int) (err error) {
		l.held[i], err = l.locker.Acquire(l.ctx, fmt.Sprint(o.Name, "-", i))
		return err
	})
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

// wait has goroutines wait for a name until the worker ends.
func (l *laborer) wait(o order) (answer, error) {
	for range o.Goroutines {
		l.background.Go(func() {
			if h, err := l.locker.Acquire(l.ctx, o.Name); err == nil {
				_ = h.Release(context.Background())
			}
		})
	}
	return answer{}, nil
}
