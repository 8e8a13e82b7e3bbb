package costs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/faults"
	crew "github.com/lockport/lockport/internal/lab/worker"
)

// micros is d in microseconds.
func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// millis is d in milliseconds.
func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// fewest is how often something is measured in a turn however long it takes: a median of one is chance.
const fewest = 5

// repeat calls f up to o.Most times, and no more when o.For has passed, but for [fewest].
func (w *worker) repeat(o order, f func() error) error {
	end := time.Now().Add(o.For)
	for i := 0; i < o.Most && (i < fewest || time.Now().Before(end)); i++ {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// ping makes bare round trips. Where there is no pinger it answers nothing.
func (w *worker) ping(o order) (a answer, err error) {
	if w.pinger == nil {
		return a, nil
	}
	a.Question = w.pinger.question
	err = w.repeat(o, func() error { return w.pingOnce(&a) })
	return a, err
}

func (w *worker) pingOnce(a *answer) error {
	took, err := w.pinger.timed(w.ctx)
	a.Pings = append(a.Pings, took)
	return err
}

// cycle acquires and releases a lock that nobody else wants, with a bare round trip before each time: what slows the machine down slows both.
func (w *worker) cycle(o order) (a answer, err error) {
	if w.pinger != nil {
		a.Question = w.pinger.question
	}
	err = w.repeat(o, func() error {
		if w.pinger != nil {
			if err := w.pingOnce(&a); err != nil {
				return err
			}
		}
		began := time.Now()
		lock, err := w.client.Acquire(w.ctx, o.Name)
		if err != nil {
			return err
		}
		got := time.Now()
		err = lock.Release(w.ctx)
		a.Releases = append(a.Releases, micros(time.Since(got)))
		a.Acquires = append(a.Acquires, micros(got.Sub(began)))
		return err
	})
	return a, err
}

// lastHoldTime is how long after its end a turn's last holds may take to come: nobody gives up waiting, since that would cost the server something
// which is not measured, and the next turn might.
const lastHoldTime = 20 * time.Second

// contend has many goroutines acquire and release one lock as fast as they can, from o.Begin on, for o.For. Each comes to the end of the hold that it
// has asked for.
func (w *worker) contend(o order) (answer, error) {
	end := o.Begin.Add(o.For)
	ctx, cancel := context.WithTimeout(w.ctx, end.Sub(faults.Now())+lastHoldTime)
	defer cancel()
	holds := make([][]hold, o.Goroutines)
	errs := make([]error, o.Goroutines)
	var all sync.WaitGroup
	for i := range o.Goroutines {
		all.Go(func() {
			time.Sleep(o.Begin.Sub(faults.Now()))
			for asked := faults.Now(); asked < end; asked = faults.Now() {
				lock, err := w.client.Acquire(ctx, o.Name)
				got := faults.Now()
				if err != nil {
					errs[i] = err
					return
				}
				releasing := faults.Now()
				if err := lock.Release(ctx); err != nil {
					errs[i] = err
					return
				}
				holds[i] = append(holds[i], hold{int64(i), asked, got, releasing})
			}
		})
	}
	all.Wait()
	return answer{Instants: crew.Pack(holds...)}, crew.First(errs)
}

// acquire acquires a lock and keeps it until it is told to release it.
func (w *worker) acquire(o order) (answer, error) {
	ctx, cancel := context.WithTimeout(w.ctx, o.For)
	defer cancel()
	lock, err := w.client.Acquire(ctx, o.Name)
	a := answer{At: faults.Now()}
	if err != nil {
		return a, err
	}
	w.mu.Lock()
	w.locks[o.Name] = lock
	w.mu.Unlock()
	return a, nil
}

func (w *worker) release(o order) (answer, error) {
	w.mu.Lock()
	lock := w.locks[o.Name]
	delete(w.locks, o.Name)
	w.mu.Unlock()
	if lock == nil {
		return answer{}, fmt.Errorf("%q is not held", o.Name)
	}
	a := answer{At: faults.Now()}
	return a, lock.Release(w.ctx)
}

// wait has goroutines wait for a lock until the worker ends.
func (w *worker) wait(o order) (answer, error) {
	if o.Direct {
		return answer{}, w.waitDirectly(o)
	}
	for range o.Goroutines {
		w.background.Go(func() {
			if lock, err := w.client.Acquire(w.ctx, o.Name); err == nil {
				_ = lock.Release(w.ctx)
			}
		})
	}
	return answer{}, nil
}

// waitDirectly has each goroutine make a claim of its own.
func (w *worker) waitDirectly(o order) error {
	b := w.client.Backend()
	waiter, ok := driver.As[driver.Waiter](b)
	if !ok {
		return errors.New("the lock has no way of its own to wait")
	}
	for range o.Goroutines {
		req := driver.Request{Name: o.Name, Owner: random() + ":compare", TTL: w.ttl}
		w.background.Go(func() {
			if lease, err := waiter.Wait(w.ctx, req); err == nil {
				_ = lease.Release(context.WithoutCancel(w.ctx))
				return
			}
			ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), time.Second)
			defer cancel()
			_ = b.Abandon(ctx, req)
		})
	}
	return nil
}
