package run

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockport/lockport/bench/crew"
	"github.com/lockport/lockport/bench/result"
)

const (
	// settleTime is how long it takes at most until who begins to wait is in the servers' queue, or listens.
	settleTime = 30 * time.Millisecond
	// grantLimit is how long after a release the wait for the lock is called a failure.
	grantLimit = 10 * time.Second
)

// latencies are what is told of some times, in microseconds.
func latencies(samples []float64) []result.Value {
	slices.Sort(samples)
	n := len(samples)
	return []result.Value{
		result.Less("p50", "µs", samples[n/2]),
		result.Less("p99", "µs", samples[n*99/100]),
		result.Less("most", "µs", samples[n-1]),
	}
}

type handOffOther struct {
	place
	crew crew.Crew
}

func openHandOffOther(ctx context.Context, at place) (player, error) {
	all, err := crew.Kind.StartAll(ctx, at.posting(at.config(ttl)), 2)
	if err != nil {
		return nil, err
	}
	return &handOffOther{at, all}, nil
}

func (h *handOffOther) close() { h.crew.Close() }

// turn hands the lock to and fro between two processes.
func (h *handOffOther) turn(ctx context.Context, n int) ([]result.Value, error) {
	name := fmt.Sprint(h.name, "-", n)
	take := crew.Order{Do: crew.Acquire, Name: name, For: grantLimit}
	if _, err := h.crew[0].Ask(ctx, take); err != nil {
		return nil, err
	}
	var samples []float64
	holder, waiter := h.crew[0], h.crew[1]
	for range h.HandOff {
		granted := waiter.Send(take)
		// Who asks again and again is met at any moment of its pause.
		if err := sleep(ctx, settleTime+rand.N(settleTime)); err != nil {
			return nil, err
		}
		released, err := holder.Ask(ctx, crew.Order{Do: crew.Release, Name: name})
		if err != nil {
			return nil, err
		}
		got, err := granted(ctx)
		if err != nil {
			return nil, err
		}
		if got.At < released.At {
			return nil, fmt.Errorf("it was had by the next %v before it was released", released.At.Sub(got.At))
		}
		samples = append(samples, micros(got.At.Sub(released.At)))
		holder, waiter = waiter, holder
	}
	_, err := holder.Ask(ctx, crew.Order{Do: crew.Release, Name: name})
	return latencies(samples), err
}

type handOffSame struct {
	place
	clerk *crew.Clerk
}

func openHandOffSame(ctx context.Context, at place) (player, error) {
	clerk, err := crew.Kind.Start(ctx, at.posting(at.config(ttl)))
	if err != nil {
		return nil, err
	}
	return &handOffSame{at, clerk}, nil
}

func (h *handOffSame) close() { h.clerk.Close() }

func (h *handOffSame) turn(ctx context.Context, n int) ([]result.Value, error) {
	a, err := h.clerk.Ask(ctx, crew.Order{Do: crew.HandOff, Name: fmt.Sprint(h.name, "-", n), Most: h.HandOff, For: settleTime})
	if err != nil {
		return nil, err
	}
	return latencies(a.Samples), nil
}

// sleep sleeps, unless ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
