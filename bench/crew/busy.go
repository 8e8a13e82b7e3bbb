package crew

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockport/lockport/faults"
	crew "github.com/lockport/lockport/internal/lab/worker"

	"github.com/lockport/lockport/bench/lib"
	"github.com/lockport/lockport/bench/usage"
)

// micros is d in microseconds.
func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// FirstCycles is how many each goroutine makes before those that are measured.
const FirstCycles = 2

// cycle has each goroutine take and release a name that nobody else wants, again and again. What is noted has its memory before it begins, since
// allocations are counted.
func (w *worker) cycle(o Order) (Answer, error) {
	take := w.locker.Acquire
	if o.Try {
		take = w.locker.Try
	}
	times := make([][]float64, o.Goroutines)
	for i := range times {
		times[i] = make([]float64, 0, o.Most)
	}
	errs := make([]error, o.Goroutines)
	once := func(i int, name string) error {
		began := time.Now()
		h, err := take(context.Background(), name)
		if err != nil {
			return err
		}
		if err := h.Release(context.Background()); err != nil {
			return err
		}
		times[i] = append(times[i], micros(time.Since(began)))
		return nil
	}
	// Everybody is ready, with connections, before it begins.
	var ready, all sync.WaitGroup
	begin := make(chan time.Time)
	for i := range o.Goroutines {
		name := fmt.Sprint(o.Name, "-", i)
		ready.Add(1)
		all.Go(func() {
			errs[i] = errors.Join(once(i, name), once(i, name))
			times[i] = times[i][:0]
			ready.Done()
			end := <-begin
			for n := 0; errs[i] == nil && n < o.Most && time.Now().Before(end); n++ {
				errs[i] = once(i, name)
			}
		})
	}
	ready.Wait()
	a := Answer{Before: usage.Settled()}
	began := time.Now()
	for range o.Goroutines {
		begin <- began.Add(o.For)
	}
	all.Wait()
	a.Took, a.After = time.Since(began), usage.Now()
	merged := slices.Concat(times...)
	slices.Sort(merged)
	if a.Count = len(merged); a.Count > 0 {
		a.P50, a.P99 = merged[a.Count/2], merged[a.Count*99/100]
	}
	return a, errors.Join(errs...)
}

// contend has all goroutines take and release one name as fast as they can, from o.Begin on, for o.For. Each comes to the end of the hold that it has asked
// for; after o.Grace nobody waits any longer.
func (w *worker) contend(o Order) (Answer, error) {
	end := o.Begin.Add(o.For)
	ctx, cancel := context.WithTimeout(w.ctx, end.Sub(faults.Now())+o.Grace)
	defer cancel()
	holds := make([][]Held, o.Goroutines)
	errs := make([]error, o.Goroutines)
	var all sync.WaitGroup
	a := Answer{Before: usage.Now()}
	for i := range o.Goroutines {
		all.Go(func() {
			time.Sleep(o.Begin.Sub(faults.Now()))
			for asked := faults.Now(); asked < end; asked = faults.Now() {
				h, err := w.locker.Acquire(ctx, o.Name)
				got := faults.Now()
				if err != nil {
					if ctx.Err() == nil {
						errs[i] = err
					}
					holds[i] = append(holds[i], Held{Client: int64(i), Asked: asked})
					return
				}
				if o.Stay > 0 && got < end {
					time.Sleep(o.Stay)
				}
				ended := faults.Now()
				if errs[i] = h.Release(context.Background()); errs[i] != nil {
					return
				}
				holds[i] = append(holds[i], Held{int64(i), asked, got, ended})
			}
		})
	}
	all.Wait()
	a.After = usage.Now()
	a.Holds = crew.Pack(holds...)
	return a, crew.First(errs)
}

// handOff measures how long after a release another goroutine, which waits, has the name; o.Most times, with o.For before each in which it begins to wait.
func (w *worker) handOff(o Order) (a Answer, err error) {
	h, err := w.locker.Acquire(w.ctx, o.Name)
	if err != nil {
		return a, err
	}
	for range o.Most {
		type grant struct {
			at   time.Time
			err  error
			hold lib.Hold
		}
		granted := make(chan grant, 1)
		go func() {
			next, err := w.locker.Acquire(w.ctx, o.Name)
			granted <- grant{time.Now(), err, next}
		}()
		time.Sleep(o.For)
		began := time.Now()
		if err := h.Release(context.Background()); err != nil {
			return a, err
		}
		g := <-granted
		if g.err != nil {
			return a, g.err
		}
		h, a.Samples = g.hold, append(a.Samples, micros(g.at.Sub(began)))
	}
	return a, h.Release(context.Background())
}
