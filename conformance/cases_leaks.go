package conformance

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

// costCases test the cost of many waiters and many locks.
var costCases = group("cost",
	full("waiters",
		"P8 no leaks: a hundred goroutines that wait for a name cost the server no more than one, and one no more than Wake and HeldError.Poll imply",
		func(e *Env) {
			holder, waiters := e.acquire(e.patient(), e.name()), e.client()
			var all []*call[*lockport.Lock]
			look := e.ttl / 2
			// count returns the requests during a look while n calls wait. It is the median of three: a busy machine may hold up one
			// look, or break connections during it, which are opened again.
			count := func(n int) int64 {
				for len(all) < n {
					all = append(all, e.acquiring(waiters, holder.Name()))
				}
				all[0].notYet(100*time.Millisecond, "the name is held")
				var counts [3]int64
				for i := range counts {
					before := e.requests()
					all[0].notYet(look, "the name is held")
					counts[i] = e.requests() - before
				}
				slices.Sort(counts[:])
				return counts[1]
			}
			most := int64(5*look/time.Second) + 5
			if e.caps.Wake == driver.WakePoll {
				most += 2 * int64(look/e.party().pollInterval(holder.Name()))
			}
			one := count(1)
			e.require(one <= most, "Capabilities.Wake is %v, yet in %v one waiter cost %d requests", e.caps.Wake, look, one)
			hundred := count(100)
			e.require(hundred <= 2*one+5, "in %v one waiter cost %d requests, a hundred cost %d", look, one, hundred)
			e.release(holder)
			e.giveUp(all)
		}, "Requests"),
	full("held-locks", "P8 no leaks: many locks are renewed together, and the number of goroutines does not grow with them", func(e *Env) {
		c := e.client()
		goroutines := func(locks int) int {
			e.acquireMany(c, locks)
			// The least of ten counts, because renewals come and go.
			least := math.MaxInt
			for range 10 {
				n, _ := labeled(e.prefix)
				least = min(least, n)
				e.sleep(e.ttl / 50)
			}
			return least
		}
		few, many := goroutines(20), goroutines(300)
		e.require(many <= few+30, "20 held locks need %d goroutines, 320 need %d", few, many)
	}),
	full("held-locks-stay", "P1 exclusion: a client renews all of its many locks in time", func(e *Env) {
		other, locks := e.party(), e.acquireMany(e.client(), 300)
		e.sleep(e.ttl * 5 / 2)
		for i, l := range locks {
			e.check(l.Err(), "lock %d of %d was lost on a healthy server", i+1, len(locks))
			if i%30 == 0 {
				other.wantHeld(l.Name(), "the holder has not released the name")
			}
		}
	}),
	full("connections", "P8 no leaks: while nobody waits, the number of connections does not grow with that of locks", func(e *Env) {
		c := e.client()
		conns := func(locks int) int {
			e.acquireMany(c, locks)
			n, err := e.conns()
			e.check(err, "Faults.Conns")
			return n
		}
		few, many := conns(5), conns(200)
		e.require(many <= few+20, "5 held locks needed %d connections, 205 need %d", few, many)
	}, "Conns"),
)

// acquireMany acquires n new names.
func (e *Env) acquireMany(c *lockport.Client, n int) []*lockport.Lock {
	locks := make([]*lockport.Lock, n)
	for i := range locks {
		locks[i] = e.acquire(c, e.name())
	}
	return locks
}

// pollInterval returns how often a waiter for a held name polls.
func (p *party) pollInterval(name string) time.Duration {
	err := errOf(p.try(p.request(name)))
	p.e.is(err, "a claim on a held name was not ErrHeld but", driver.ErrHeld)
	if held, ok := errors.AsType[*driver.HeldError](err); ok && held.Poll > 0 {
		return held.Poll
	}
	return 250 * time.Millisecond
}

// closeCases test Close of a client.
var closeCases = group("close",
	quick("holding", "P8 no leaks, P10 errors: Close ends every hold with ErrClosed, not with ErrLost, and frees its name; later calls return ErrClosed", func(e *Env) {
		a, b := e.patient(), e.client()
		locks := e.acquireMany(a, 20)
		e.check(a.Close(), "Close")
		e.check(a.Close(), "a second Close")
		e.is(errOf(a.Acquire(e.ctx, e.name())), "Acquire of a closed client must return ErrClosed; it returned", lockport.ErrClosed)
		e.is(errOf(a.TryAcquire(e.ctx, e.name())), "TryAcquire of a closed client must return ErrClosed; it returned", lockport.ErrClosed)
		for _, l := range locks {
			err := l.Err()
			e.require(errors.Is(err, lockport.ErrClosed) && !errors.Is(err, lockport.ErrLost), "after Close Err must be ErrClosed alone; it is: %w", err)
			e.notLost(l, "Close")
			e.check(l.Release(e.ctx), "Release after Close must return nil; it returned")
			e.release(e.acquireWithin(b, l.Name(), soon, "the holder's client was closed"))
		}
	}),
	quick("busy", "P8 no leaks: Close ends waits, acquisitions, renewals and releases that are under way, and their claims", func(e *Env) {
		other := e.client()
		for range 5 {
			c, l := e.client(), e.acquire(other, e.name())
			names := []string{l.Name(), e.name(), e.name(), e.name()} // the first one is held by another client
			var busy []*call[struct{}]
			for i := range 16 {
				busy = append(busy, e.start("Acquire or Release", func(ctx context.Context) (err error) {
					for err == nil {
						var l *lockport.Lock
						if l, err = acquire(ctx, c, names[i%4]); err == nil && i > 2 { // two names are held and renewed until Close
							err = l.Release(ctx)
						}
					}
					if errors.Is(err, lockport.ErrClosed) {
						err = nil
					}
					return err
				}))
			}
			e.sleep(20 * time.Millisecond)
			closed := e.start("Close", func(context.Context) error { return c.Close() })
			e.check(errOf(closed.ended(soon, "the server is healthy")), "Close")
			for _, w := range busy {
				e.check(errOf(w.ended(soon+endTime, "the client was closed")), "the client was closed, so its calls return ErrClosed, but one returned")
			}
			e.release(l)
			p := e.party()
			for _, name := range names {
				p.wantFree(name, "Close of the client returned nil")
			}
		}
		e.leftovers("everything was released or closed")
	}),
	full("silent-server", "P8 no leaks: on a silent server Close returns, with an error", func(e *Env) {
		c := e.client()
		e.acquire(c, e.name())
		e.acquire(e.client(), e.name())
		e.freeze()
		pending := e.acquiring(c, e.name())
		closed := e.start("Close", func(context.Context) error { return c.Close() })
		e.is(errOf(pending.ended(soon, "the client was closed")), "Close must end a waiting Acquire with ErrClosed; it returned", lockport.ErrClosed)
		_, err := closed.ended(4*callTime, "the server is silent")
		e.require(err != nil || e.caps.Ends != driver.EndsTTL, "Close returned nil, although it could not release its locks, "+orNoFault)
	}, "Freeze").within(time.Minute),
)
