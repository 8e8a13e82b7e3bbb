package play

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/leader"
)

// lead campaigns for a name until the worker is asked to end, and records each term as a hold.
func (w *worker) lead(op int64, name string, r *rand.Rand) {
	answer := history.Failed
	observe := func(c leader.Change) {
		switch c.State {
		case leader.Campaigning:
			op++
			answer = history.Failed
			w.record(history.Event{Kind: history.Asked, Op: op, Name: name}, nil)
		case leader.Leading:
			answer = history.Released
		case leader.Idle:
			w.record(history.Event{Kind: answer, Op: op, Name: name}, c.Err)
		}
	}
	_ = leader.Run(w.leaving, w.client, name, func(ctx context.Context, term *lockport.Lock) error {
		h := &hold{worker: w, lock: term, op: op, name: name}
		h.token, _ = term.Token()
		stay := w.TTL / 4
		if r.IntN(2) == 0 {
			stay = 3 * w.TTL // through a loss
		}
		h.lead(ctx, between(r, 0, stay))
		return nil
	}, leader.Backoff(10*time.Millisecond, 100*time.Millisecond), leader.Observe(observe))
}

// lead believes in the term until its context ends, or stay is over. A context cannot end while the process is paused: then the deadline counts.
func (h *hold) lead(ctx context.Context, stay time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, stay)
	defer cancel()
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	got := h.event(history.Got) // without a deadline, which would count if over has none
	h.readDeadline()
	last, paused := h.worker.record(got, nil).At, false
	for ctx.Err() == nil {
		h.readDeadline()
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
		now := history.Now()
		if paused = now.Sub(last) > pauseSeen; paused && !h.lock.Valid() {
			break
		}
		last = now
	}
	over := h.event(history.Releasing)
	over.At = history.Now()
	if !paused && over.At.Sub(last) <= pauseSeen {
		over.Deadline = 0
	}
	h.worker.record(over, nil)
}
