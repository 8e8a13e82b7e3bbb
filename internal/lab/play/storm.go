package play

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lab/history"
	process "github.com/lockport/lockport/internal/lab/worker"
	"github.com/lockport/lockport/leader"
)

const (
	// workers is the number of worker processes in a storm, and goroutines the number of goroutines in each.
	workers, goroutines = 4, 4
	// warmUp is the number of holds before the fault.
	warmUp = 8
	// settleTime is how long workers go on after the recovery. Clients retry clean-up once a second, which must not hit another's lock.
	settleTime = 1200 * time.Millisecond
)

// Storm is a script in which worker processes use locks of several names. inject makes the fault and ends it. Then every worker must acquire again.
func Storm(inject Act) Act {
	return func(s *Phase) {
		s.storm = true
		s.startStorm()
		s.holds(0, warmUp)
		inject(s)
	}
}

// startStorm starts the missing workers of a storm.
func (s *Phase) startStorm() {
	seeds := make([]uint64, max(0, workers-len(s.Workers())))
	for i := range seeds {
		seeds[i] = s.Rand.Uint64()
	}
	Check(errors.Join(process.AtOnce(seeds, func(_ int, seed uint64) error {
		w, err := s.start()
		if err == nil {
			_, err = w.ask(order{Do: doStorm, Name: s.Name, Seed: seed, Lead: s.Cell.Lead})
		}
		return err
	})...))
}

// recovers replaces killed workers, and waits until every worker has acquired a lock since the servers were healed. It names those that did not.
func (s *Phase) recovers() (stuck []string) {
	s.startStorm()
	from := len(s.Events())
	ctx, cancel := context.WithTimeoutCause(s.Ctx, s.Limit(), fmt.Errorf("%v after the fault", s.Limit()))
	defer cancel()
	for _, w := range s.Workers() {
		_, err := s.await(ctx, nil, from, func(e history.Event) bool { return e.Worker == w.Name && e.Kind == history.Got })
		if err != nil {
			stuck = append(stuck, fmt.Sprintf("worker %s has not acquired a lock %v", w.Name, err))
		}
	}
	s.Wait(settleTime)
	return stuck
}

// The locks of a storm, by the ends of their names. Two have their own mode, if the backend has it.
const sharedLock, permitsLock = "-shared", "-permits"

var locks = [goroutines]string{"-a", "-b", sharedLock, permitsLock}

// storm works until the worker is asked to end. Each leader has a name of its own.
func (w *worker) storm(o order) {
	for i := range goroutines {
		r := rand.New(rand.NewPCG(o.Seed, uint64(i)))
		op := int64(i+1) << 32
		w.busy.Go(func() {
			if o.Lead {
				w.lead(op, o.Name+locks[i], r)
			}
			for ; w.leaving.Err() == nil; op++ {
				lock := locks[r.IntN(len(locks))]
				w.round(r, op, o.Name+lock, w.mode(r, lock))
			}
		})
	}
}

// mode returns how to request a lock. Two in three acquisitions of the shared one are by readers.
func (w *worker) mode(r *rand.Rand, lock string) (m history.Mode) {
	reader, caps := r.IntN(3) > 0, w.client.Capabilities()
	switch lock {
	case sharedLock:
		m.Shared = reader && caps.Shared
	case permitsLock:
		if caps.Permits {
			m.Permits = 2
		}
	}
	return m
}

// round is one acquisition and its hold. An exclusive holder updates the register.
func (w *worker) round(r *rand.Rand, op int64, name string, mode history.Mode) {
	within := 10 * w.TTL
	if r.IntN(8) == 0 {
		within = between(r, 0, w.TTL/2) // a caller in a hurry
	}
	h, _ := w.acquire(op, name, mode, within, r.IntN(8) == 0)
	if h == nil {
		time.Sleep(between(r, 5*time.Millisecond, 50*time.Millisecond))
		return
	}
	h.begin()
	if stay, careful := w.stay(r), r.IntN(3) > 0; mode == (history.Mode{}) {
		h.update(stay, careful)
	} else {
		h.stay(2 * stay)
	}
	h.release()
	time.Sleep(between(r, 0, 20*time.Millisecond))
}

// stay returns how long to hold a lock: mostly briefly, at times for longer than a TTL, so that renewals matter.
func (w *worker) stay(r *rand.Rand) time.Duration {
	switch r.IntN(30) {
	case 0:
		return between(r, w.TTL/2, w.TTL*3/2)
	case 1, 2, 3, 4:
		return between(r, 20*time.Millisecond, w.TTL/4)
	default:
		return between(r, 0, 20*time.Millisecond)
	}
}

// between is a random duration.
func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)+1))
}

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
