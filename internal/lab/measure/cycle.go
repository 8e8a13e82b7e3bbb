package measure

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockport/lockport/internal/lab/worker"
)

// CycleOptions say how uncontended cycles are made.
type CycleOptions struct {
	Name       string
	Goroutines int           // each has a name of its own
	Most       int           // cycles of each
	For        time.Duration // no cycle begins later, but for the first five
	Try        bool          // single attempts instead of waiting
}

// Cycles are what uncontended cycles cost. Times are microseconds.
type Cycles struct {
	Acquire, Release, Both []float64
	Took                   time.Duration
	// CPU, Allocs and Allocated are what the worker used, without the warm-up.
	CPU               time.Duration
	Allocs, Allocated uint64
}

// Warm is how many cycles each goroutine makes before those that are measured.
const Warm = 2

// fewest is how often something is measured however long it takes: a median of one is chance.
const fewest = 5

// Cycle has the first worker acquire and release names that nobody else wants.
func (w *Workers) Cycle(ctx context.Context, o CycleOptions) (Cycles, error) {
	a, err := w.all[0].Ask(ctx, order{Do: "cycle", Name: o.Name, Goroutines: o.Goroutines, Most: o.Most, For: o.For, Flag: o.Try})
	c := Cycles{Took: a.Took, CPU: a.After.CPU - a.Before.CPU, Allocs: a.After.Allocs - a.Before.Allocs, Allocated: a.After.Allocated - a.Before.Allocated}
	for _, one := range worker.Unpack[cycle](a.Packed) {
		c.Acquire, c.Release, c.Both = append(c.Acquire, one.Acquire), append(c.Release, one.Release), append(c.Both, one.Acquire+one.Release)
	}
	return c, err
}

// cycle is one cycle, in microseconds.
type cycle struct{ Acquire, Release float64 }

// cycle makes cycles in the worker. What is noted has its memory before it begins, since allocations are counted.
func (l *laborer) cycle(o order) (a answer, err error) {
	once := func(name string) (c cycle, err error) {
		began := time.Now()
		release, err := l.locker.Acquire(context.Background(), name, !o.Flag)
		if err != nil {
			return c, err
		}
		got := time.Now()
		err = release(context.Background())
		return cycle{micros(got.Sub(began)), micros(time.Since(got))}, err
	}
	times, errs := make([][]cycle, o.Goroutines), make([]error, o.Goroutines)
	var ready, all sync.WaitGroup
	begin := make(chan time.Time)
	for i := range o.Goroutines {
		name := fmt.Sprint(o.Name, "-", i)
		times[i] = make([]cycle, 0, o.Most)
		ready.Add(1)
		all.Go(func() {
			for n := 0; errs[i] == nil && n < Warm; n++ { // everybody has a connection when it begins
				_, errs[i] = once(name)
			}
			ready.Done()
			end := <-begin
			for n := 0; errs[i] == nil && l.ctx.Err() == nil && n < o.Most && (n < fewest || time.Now().Before(end)); n++ {
				var c cycle
				c, errs[i] = once(name)
				times[i] = append(times[i], c)
			}
		})
	}
	ready.Wait()
	a.Before = usageNow(true)
	began := time.Now()
	for range o.Goroutines {
		begin <- began.Add(o.For)
	}
	all.Wait()
	a.Took, a.After = time.Since(began), usageNow(false)
	a.Packed = worker.Pack(slices.Concat(times...))
	return a, worker.First(errs)
}
