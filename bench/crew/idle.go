package crew

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/lockport/lockport/faults"
	crew "github.com/lockport/lockport/internal/lab/worker"

	"github.com/lockport/lockport/bench/lib"
	"github.com/lockport/lockport/bench/usage"
)

// acquire takes a name and keeps it until it is told to release it.
func (w *worker) acquire(o Order) (a Answer, err error) {
	ctx, cancel := context.WithTimeout(w.ctx, o.For)
	defer cancel()
	h, err := w.locker.Acquire(ctx, o.Name)
	a.At = faults.Now()
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("not granted within %v: %w", o.For, err)
		}
		return a, err
	}
	w.keep(o.Name, h)
	return a, nil
}

func (w *worker) release(o Order) (Answer, error) {
	w.mu.Lock()
	h := w.kept[o.Name]
	delete(w.kept, o.Name)
	w.mu.Unlock()
	if h == nil {
		return Answer{}, fmt.Errorf("%q is not held", o.Name)
	}
	a := Answer{At: faults.Now()}
	return a, h.Release(context.Background())
}

// together is how many goroutines take, or release, many names.
const together = 64

// hold takes o.Most names and keeps them.
func (w *worker) hold(o Order) (Answer, error) {
	first := len(w.held)
	w.held = append(w.held, make([]lib.Hold, o.Most)...) // little, beside what holds themselves need
	errs := make([]error, together)
	var next atomic.Int64
	var all sync.WaitGroup
	for g := range together {
		all.Go(func() {
			for i := next.Add(1); i <= int64(o.Most) && errs[g] == nil; i = next.Add(1) {
				w.held[first+int(i)-1], errs[g] = w.locker.Acquire(w.ctx, fmt.Sprint(o.Name, "-", i))
			}
		})
	}
	all.Wait()
	return Answer{}, crew.First(errs)
}

// releaseAll releases what is kept, when all is over.
func (w *worker) releaseAll() {
	holds := make(chan lib.Hold)
	var all sync.WaitGroup
	for range together {
		all.Go(func() {
			for h := range holds {
				_ = h.Release(context.Background()) // the servers end with the run
			}
		})
	}
	for _, h := range slices.Concat(w.held, slices.Collect(maps.Values(w.kept))) {
		if h != nil {
			holds <- h
		}
	}
	close(holds)
	all.Wait()
}

// wait has goroutines wait for a name until the worker ends.
func (w *worker) wait(o Order) (Answer, error) {
	for range o.Goroutines {
		w.background.Go(func() {
			if h, err := w.locker.Acquire(w.ctx, o.Name); err == nil {
				_ = h.Release(context.Background())
			}
		})
	}
	return Answer{}, nil
}

func (w *worker) usage(o Order) (Answer, error) {
	if o.Try {
		return Answer{After: usage.Now()}, nil
	}
	return Answer{After: usage.Settled()}, nil
}
