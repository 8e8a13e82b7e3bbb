package measure

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/worker"
)

// HandOff hands a lock to and fro between the first two workers, n times, and returns the times from a release to the waiter's grant in microseconds. A single
// worker hands it from goroutine to goroutine. Each hold lasts between pause and twice that: long enough for the other to wait in earnest, and never equally
// long, so that a waiter which polls is met at any moment of its period.
func (w *Workers) HandOff(ctx context.Context, name string, n int, pause time.Duration) (times []float64, err error) {
	if len(w.all) == 1 {
		a, err := w.all[0].Ask(ctx, order{Do: "handoff", Name: name, Most: n, For: pause})
		return worker.Unpack[float64](a.Packed), err
	}
	holder, waiter := w.all[0], w.all[1]
	if _, err := acquire(holder, name, grantLimit)(ctx); err != nil {
		return nil, err
	}
	for range n {
		await := acquire(waiter, name, grantLimit)
		if err := sleep(ctx, pause+rand.N(pause)); err != nil {
			return nil, err
		}
		released, err := holder.Ask(ctx, order{Do: "release", Name: name})
		if err != nil {
			return nil, err
		}
		granted, err := await(ctx)
		if err != nil {
			return nil, err
		}
		took, err := passed(released.At, granted, "it was released")
		if err != nil {
			return nil, err
		}
		times = append(times, micros(took))
		holder, waiter = waiter, holder
	}
	_, err = holder.Ask(ctx, order{Do: "release", Name: name})
	return times, err
}

// handOff is HandOff between goroutines of the worker. Orders would disturb it.
func (l *laborer) handOff(o order) (answer, error) {
	type grant struct {
		at      history.Instant
		release Release
		err     error
	}
	acquire := func() (g grant) {
		g.release, g.err = l.locker.Acquire(l.ctx, o.Name, true)
		g.at = history.Now()
		return g
	}
	var times []float64
	held := acquire()
	for range o.Most {
		if held.err != nil {
			return answer{}, held.err
		}
		granted := make(chan grant, 1)
		go func() { granted <- acquire() }()
		if err := sleep(l.ctx, o.For+rand.N(o.For)); err != nil {
			return answer{}, err
		}
		released := history.Now()
		if err := held.release(context.Background()); err != nil {
			return answer{}, err
		}
		held = <-granted
		took, err := passed(released, held.at, "it was released")
		if err != nil {
			return answer{}, err
		}
		times = append(times, micros(took))
	}
	if held.err != nil {
		return answer{}, held.err
	}
	return answer{Packed: worker.Pack(times)}, held.release(context.Background())
}

// TakeoverOptions say who is killed.
type TakeoverOptions struct {
	Name    string
	Locks   int // of the process that is killed: a sample each
	Waiters int // processes that wait for them
	// Turn of Turns kills come at several moments of the period of renewals, which is a third of the TTL.
	Turn, Turns int
}

// Takeover kills the process of a holder, and returns how long its locks stayed taken, in milliseconds.
func Takeover(ctx context.Context, c Config, o TakeoverOptions) (times []float64, err error) {
	w, err := Start(ctx, c, 1+o.Waiters)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	holder, others := w.all[0], w.all[1:]
	var waits []func(context.Context) (history.Instant, error)
	for i := range o.Locks {
		name := fmt.Sprint(o.Name, "-", i)
		if _, err := acquire(holder, name, grantLimit)(ctx); err != nil {
			return nil, err
		}
		waits = append(waits, acquire(others[i%len(others)], name, c.TTL+grantLimit))
	}
	into := c.TTL / 3 * time.Duration(2*o.Turn+1) / time.Duration(2*o.Turns)
	if err := sleep(ctx, settleStep+into); err != nil {
		return nil, err
	}
	killed := history.Now()
	holder.Kill()
	for _, await := range waits {
		granted, err := await(ctx)
		if err != nil {
			return nil, err
		}
		took, err := passed(killed, granted, "its holder was killed")
		if err != nil {
			return nil, err
		}
		times = append(times, millis(took))
	}
	return times, nil
}
