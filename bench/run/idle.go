package run

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/lockport/lockport/bench/crew"
	"github.com/lockport/lockport/bench/result"
	"github.com/lockport/lockport/bench/stage"
)

// waiting is the scenario of those who wait. Each turn has workers of its own, since who waits does so until its process ends.
type waiting struct {
	place
	n int
}

func openWaiters(n int) func(context.Context, place) (player, error) {
	return func(_ context.Context, at place) (player, error) { return waiting{at, n}, nil }
}

func (waiting) close() {}

func (w waiting) turn(ctx context.Context, turn int) ([]result.Value, error) {
	links, err := w.stage.Link()
	if err != nil {
		return nil, err
	}
	defer links.Close()
	c := w.config(longTTL)
	holder, err := crew.Kind.Start(ctx, w.posting(c))
	if err != nil {
		return nil, err
	}
	defer w.dismiss(holder)
	c.URL = links.URL
	waiter, err := crew.Kind.Start(ctx, w.posting(c))
	if err != nil {
		return nil, err
	}
	defer w.dismiss(waiter)
	name := fmt.Sprint(w.name, "-", turn)
	if _, err := holder.Ask(ctx, crew.Order{Do: crew.Acquire, Name: name, For: grantLimit}); err != nil {
		return nil, err
	}
	i := idle{w.place, links, waiter, w.n}
	return i.measure(ctx, w.Idle, crew.Order{Do: crew.Wait, Name: name, Goroutines: w.n})
}

// dismiss ends a worker at once: some libraries do not hear that nobody wants to wait any more. Only profiles are waited for.
func (w waiting) dismiss(clerk *crew.Clerk) {
	if w.profiles != "" {
		clerk.Close()
		return
	}
	clerk.Kill()
}

// holding is the scenario of locks that are held. Each turn has a worker of its own.
type holding struct {
	place
	n int
}

func openHeld(n int) func(context.Context, place) (player, error) {
	return func(_ context.Context, at place) (player, error) { return holding{at, n}, nil }
}

func (holding) close() {}

func (h holding) turn(ctx context.Context, turn int) ([]result.Value, error) {
	links, err := h.stage.Link()
	if err != nil {
		return nil, err
	}
	defer links.Close()
	c := h.config(h.HeldTTL)
	c.URL, c.Loop = links.URL, true
	clerk, err := crew.Kind.Start(ctx, h.posting(c))
	if err != nil {
		return nil, err
	}
	defer clerk.Close()
	i := idle{h.place, links, clerk, h.n}
	values, err := i.measure(ctx, h.HeldTTL, crew.Order{Do: crew.Hold, Name: fmt.Sprint(h.name, "-", turn), Most: h.n})
	if err != nil {
		return nil, err
	}
	// The first is the requests of a second. Locks are renewed at a third of the TTL, if their library has no other mind.
	return slices.Insert(values, 1, result.Less("requests, in a third of the TTL", "", values[0].V*h.HeldTTL.Seconds()/3)), nil
}

// idle is a worker that is to do next to nothing.
type idle struct {
	place
	links *stage.Links
	clerk *crew.Clerk
	n     int // locks held, or waiters
}

// measure says what an order has brought about, when that has settled, over some time.
func (i idle) measure(ctx context.Context, time time.Duration, o crew.Order) ([]result.Value, error) {
	before, err := i.clerk.Ask(ctx, crew.Order{Do: crew.Usage})
	if err != nil {
		return nil, err
	}
	empty, err := i.stage.Load(ctx, nil)
	if err != nil {
		return nil, err
	}
	if _, err := i.clerk.Ask(ctx, o); err != nil {
		return nil, err
	}
	if err := i.settle(ctx); err != nil {
		return nil, err
	}
	there, err := i.clerk.Ask(ctx, crew.Order{Do: crew.Usage})
	if err != nil {
		return nil, err
	}
	start, err := i.stage.Load(ctx, i.links)
	if err != nil {
		return nil, err
	}
	began, err := i.clerk.Ask(ctx, crew.Order{Do: crew.Usage, Try: true})
	if err != nil {
		return nil, err
	}
	if err := sleep(ctx, time); err != nil {
		return nil, err
	}
	ended, err := i.clerk.Ask(ctx, crew.Order{Do: crew.Usage, Try: true})
	if err != nil {
		return nil, err
	}
	end, err := i.stage.Load(ctx, i.links)
	if err != nil {
		return nil, err
	}
	seconds, n := end.At.Sub(start.At).Seconds(), float64(i.n)
	values := []result.Value{result.Less("requests", "/s", float64(end.Requests-start.Requests)/seconds)}
	if i.stage.CountsCommands() {
		values = append(values, result.Less("commands", "/s", float64(end.Commands-start.Commands)/seconds))
	}
	return append(values,
		result.Less("connections", "", float64(end.Connections)),
		result.Less("client CPU", "% of a core", 100*(ended.After.CPU-began.After.CPU).Seconds()/seconds),
		result.Less("server CPU", "% of a core", 100*(end.CPU-start.CPU).Seconds()/seconds),
		result.Less("goroutines", "", float64(there.After.Goroutines-before.After.Goroutines)),
		result.Less("client memory", "B each", float64(there.After.Memory-before.After.Memory)/n),
		result.Less("server memory", "B each", math.Max(0, float64(start.Memory-empty.Memory)/n)),
	), nil
}

const (
	settleStep  = 300 * time.Millisecond
	settleLimit = 20 * time.Second
)

// settle waits until everybody waits, or holds: until as many requests are made in a moment as in the last, or next to none.
func (i idle) settle(ctx context.Context) error {
	deadline := time.Now().Add(settleLimit)
	load, err := i.stage.Load(ctx, i.links)
	if err != nil {
		return err
	}
	for last := math.Inf(1); time.Now().Before(deadline); {
		if err := sleep(ctx, settleStep); err != nil {
			return err
		}
		next, err := i.stage.Load(ctx, i.links)
		if err != nil {
			return err
		}
		made := float64(next.Requests - load.Requests)
		if math.Abs(made-last) <= max(5, last/5) {
			return nil
		}
		last, load = made, next
	}
	return nil // it never does: what is measured is that
}
