package play

import (
	"math/rand/v2"
	"time"
)

// stormPlan is what a worker of a storm does until it is asked to end: some goroutines take, hold and release some names.
type stormPlan struct {
	Seed       uint64
	Names      []string
	Goroutines int
	// Busy is to hold as often as possible, never for long.
	Busy bool
}

// storm works in all goroutines, and returns at once.
func (w *worker) storm(p stormPlan) {
	for i := range p.Goroutines {
		r := rand.New(rand.NewPCG(p.Seed, uint64(i)))
		w.busy.Go(func() {
			for n := int64(0); w.leaving.Err() == nil; n++ {
				op, name := int64(i+1)<<32|n, p.Names[r.IntN(len(p.Names))]
				if !p.Busy {
					w.round(r, op, name)
				} else if h, _ := w.acquire(op, name, 10*w.TTL, false); h != nil {
					h.begin()
					h.release()
				}
			}
		})
	}
}

// round is one acquisition, with what its caller does while it has the lock.
func (w *worker) round(r *rand.Rand, op int64, name string) {
	within := 10 * w.TTL
	if r.IntN(8) == 0 {
		within = between(r, 0, w.TTL/2) // somebody in a hurry
	}
	h, _ := w.acquire(op, name, within, r.IntN(8) == 0)
	if h == nil {
		time.Sleep(between(r, 5*time.Millisecond, 50*time.Millisecond))
		return
	}
	h.begin()
	h.update(w.stay(r), r.IntN(3) > 0)
	h.release()
	time.Sleep(between(r, 0, 20*time.Millisecond))
}

// stay is for how long a lock is held: mostly briefly, at times for longer than a TTL, so that renewals matter.
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
