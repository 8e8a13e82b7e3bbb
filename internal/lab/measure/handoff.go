package measure

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// HandOff hands a lock to and fro between the first two workers, n times, and returns the times from a release to the waiter's grant in microseconds.
// Each hold lasts between pause and twice that: long enough for the other to wait in earnest, and never equally long, so that a waiter which asks again and
// again is met at any moment of its period.
func (w *Workers) HandOff(ctx context.Context, name string, n int, pause time.Duration) ([]float64, error) {
	take := order{Do: doAcquire, Name: name, For: grantLimit}
	holder, waiter := w.all[0], w.all[1]
	if _, err := holder.Ask(ctx, take); err != nil {
		return nil, err
	}
	var times []float64
	for range n {
		await := waiter.Send(take)
		if err := sleep(ctx, pause+rand.N(pause)); err != nil {
			return nil, err
		}
		released, err := holder.Ask(ctx, order{Do: doRelease, Name: name})
		if err != nil {
			return nil, err
		}
		got, err := await(ctx)
		if err != nil {
			return nil, err
		}
		if got.At < released.At {
			return nil, fmt.Errorf("it was had by the next %v before it was released", released.At.Sub(got.At))
		}
		times = append(times, micros(got.At.Sub(released.At)))
		holder, waiter = waiter, holder
	}
	_, err := holder.Ask(ctx, order{Do: doRelease, Name: name})
	return times, err
}

// HandOffInside is HandOff between goroutines of the first worker.
func (w *Workers) HandOffInside(ctx context.Context, name string, n int, pause time.Duration) ([]float64, error) {
	a, err := w.all[0].Ask(ctx, order{Do: doHandOff, Name: name, Most: n, For: pause})
	return a.Samples, err
}

// handOff is the worker's part of HandOffInside.
func (l *laborer) handOff(o order) (a answer, err error) {
	h, err := l.locker.Acquire(l.ctx, o.Name)
	if err != nil {
		return a, err
	}
	type grant struct {
		at   time.Time
		err  error
		hold Hold
	}
	for range o.Most {
		granted := make(chan grant, 1)
		go func() {
			next, err := l.locker.Acquire(l.ctx, o.Name)
			granted <- grant{time.Now(), err, next}
		}()
		if err := sleep(l.ctx, o.For); err != nil {
			return a, err
		}
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
