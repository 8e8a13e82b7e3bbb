package crew

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/lockport/lockport/faults"

	"github.com/lockport/lockport/bench/usage"
)

// acquire takes a name and keeps it until it is told to release it.
func (w *worker) acquire(o Order) (a Answer, err error) {
	ctx, cancel := context.WithTimeout(w.ctx, o.For)
	defer cancel()
	h, err := w.locker.Acquire(ctx, o.Name)
	a.At = faults.Now()
	if err != nil {
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
	errs := make([]error, together)
	var next atomic.Int64
	var all sync.WaitGroup
	for g := range together {
		all.Go(func() {
			for i := next.Add(1); i <= int64(o.Most) && errs[g] == nil; i = next.Add(1) {
				name := fmt.Sprint(o.Name, "-", i)
				h, err := w.locker.Acquire(w.ctx, name)
				if errs[g] = err; err == nil {
					w.keep(name, h)
				}
			}
		})
	}
	all.Wait()
	return Answer{}, first(errs)
}

// releaseAll releases what is kept, when all is over.
func (w *worker) releaseAll() {
	holds := make(chan interface{ Release(context.Context) error })
	var all sync.WaitGroup
	for range together {
		all.Go(func() {
			for h := range holds {
				_ = h.Release(context.Background()) // the servers end with the run
			}
		})
	}
	for _, h := range w.kept {
		holds <- h
	}
	close(holds)
	all.Wait()
}

// wait has goroutines wait for a name until the worker ends.
func (w *worker) wait(o Order) (Answer, error) {
	for range o.Goroutines {
		w.orders.Go(func() {
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
