package measure

import (
	"context"
	"errors"
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
	// Pings are bare round trips, one before each cycle, and Question says what was asked; none where the library cannot ping.
	Pings    []float64
	Question string
	Took     time.Duration
	// CPU, Allocs and Allocated are what the worker used, the two cycles of each goroutine before those that are measured left out.
	CPU               time.Duration
	Allocs, Allocated uint64
}

// Warm is how many cycles each goroutine makes before those that are measured.
const Warm = 2

// Cycle has the first worker acquire and release names that nobody else wants.
func (w *Workers) Cycle(ctx context.Context, o CycleOptions) (Cycles, error) {
	a, err := w.all[0].Ask(ctx, order{Do: doCycle, Name: o.Name, Goroutines: o.Goroutines, Most: o.Most, For: o.For, Flag: o.Try})
	if err != nil {
		return Cycles{}, err
	}
	c := Cycles{Question: a.Question, Took: a.Took, CPU: a.After.CPU - a.Before.CPU, Allocs: a.After.Allocs - a.Before.Allocs, Allocated: a.After.Allocated - a.Before.Allocated}
	for _, one := range worker.Unpack[cycle](a.Packed) {
		c.Acquire, c.Release, c.Both = append(c.Acquire, one.Acquire), append(c.Release, one.Release), append(c.Both, one.Acquire+one.Release)
		if a.Question != "" {
			c.Pings = append(c.Pings, one.Ping)
		}
	}
	return c, nil
}

// Ping has the first worker make bare round trips: in microseconds, none where the library cannot ping.
func (w *Workers) Ping(ctx context.Context, most int, time time.Duration) ([]float64, error) {
	a, err := w.all[0].Ask(ctx, order{Do: doPing, Most: most, For: time})
	return a.Samples, err
}

// cycle is one cycle, in microseconds.
type cycle struct{ Ping, Acquire, Release float64 }

// mostNoted is how many cycles a goroutine has memory for at the beginning.
const mostNoted = 1 << 19

// fewest is how often something is measured however long it takes: a median of one is chance.
const fewest = 5

// cycle makes cycles in the worker. What is noted has its memory before it begins, since allocations are counted.
func (l *laborer) cycle(o order) (a answer, err error) {
	take := l.locker.Acquire
	if o.Flag {
		take = l.locker.Try
	}
	if l.pinger != nil {
		a.Question = l.pinger.Question()
	}
	once := func(name string) (c cycle, err error) {
		if l.pinger != nil {
			if c.Ping, err = l.pingOnce(); err != nil {
				return c, err
			}
		}
		began := time.Now()
		h, err := take(context.Background(), name)
		if err != nil {
			return c, err
		}
		got := time.Now()
		err = h.Release(context.Background())
		c.Acquire, c.Release = micros(got.Sub(began)), micros(time.Since(got))
		return c, err
	}
	times, errs := make([][]cycle, o.Goroutines), make([]error, o.Goroutines)
	var ready, all sync.WaitGroup
	begin := make(chan time.Time)
	for i := range o.Goroutines {
		name := fmt.Sprint(o.Name, "-", i)
		times[i] = make([]cycle, 0, min(o.Most, mostNoted))
		ready.Add(1)
		all.Go(func() {
			for range Warm { // everybody has a connection when it begins
				_, err := once(name)
				errs[i] = errors.Join(errs[i], err)
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
	return a, errors.Join(errs...)
}

func (l *laborer) pingOnce() (float64, error) {
	began := time.Now()
	err := l.pinger.Ping(l.ctx)
	return micros(time.Since(began)), err
}

func (l *laborer) ping(o order) (a answer, err error) {
	end := time.Now().Add(o.For)
	for n := 0; l.pinger != nil && n < o.Most && (n < fewest || time.Now().Before(end)); n++ {
		took, err := l.pingOnce()
		if err != nil {
			return a, err
		}
		a.Samples = append(a.Samples, took)
	}
	return a, nil
}
