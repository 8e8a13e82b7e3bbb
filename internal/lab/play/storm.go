package play

import (
	"math/rand/v2"
	"time"

	"github.com/lockport/lockport/internal/lab/history"
)

// stormPlan is the work of a storm's worker until it is asked to end: goroutines acquire, hold and release locks on some names.
type stormPlan struct {
	Seed       uint64
	Names      []string
	Goroutines int
	// Lead, if not nil, has each goroutine campaign on a name of its own.
	Lead *Lead
}

func (w *worker) storm(p stormPlan) {
	for i := range p.Goroutines {
		r := rand.New(rand.NewPCG(p.Seed, uint64(i)))
		if p.Lead != nil {
			w.busy.Go(func() { w.lead(int64(i+1)<<32, p.Names[i], r, *p.Lead) })
			continue
		}
		w.busy.Go(func() {
			for n := int64(0); w.leaving.Err() == nil; n++ {
				which := r.IntN(len(p.Names))
				w.round(r, int64(i+1)<<32|n, p.Names[which], w.mode(r, which))
			}
		})
	}
}

// Two names of a storm have their own mode, if the backend has it. Two in three acquisitions of the first are by readers.
const (
	sharedName, permitsName = 2, 3
	permits                 = 2
)

func (w *worker) mode(r *rand.Rand, name int) (m history.Mode) {
	reader, caps := r.IntN(3) > 0, w.client.Capabilities()
	switch name {
	case sharedName:
		m.Shared = reader && caps.Shared
	case permitsName:
		if caps.Permits {
			m.Permits = permits
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
