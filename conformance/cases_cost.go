package conformance

import (
	"math"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

// costCases are about what many waiters and many locks cost.
var costCases = group("cost",
	full("waiters",
		"P8 no leaks: a hundred goroutines that wait for a name cost the server no more than one does, and one no more than Wake and Poll say", func(e *Env) {
			holder := e.acquire(e.client(), e.name(), ttlIfFree(e, 30*e.ttl)...)
			waiters := e.client()
			// The least of three looks, if the first is above the bound: on a busy machine connections break, and are made anew.
			count := func(bound int64) int64 {
				least := int64(math.MaxInt64)
				for look := 0; look < 3 && least > bound; look++ {
					before := e.requests()
					e.sleep(e.ttl)
					least = min(least, e.requests()-before)
				}
				return least
			}
			all := []*acquiring{e.begin(waiters, holder.Name())}
			e.sleep(100 * time.Millisecond)
			most := int64(5*e.ttl/time.Second) + 5
			if e.caps.Wake == driver.WakePoll {
				poll := e.caps.Poll
				if poll == 0 {
					poll = 250 * time.Millisecond
				}
				most += 2 * int64(e.ttl/poll)
			}
			one := count(most)
			if one > most {
				e.failf("Capabilities.Wake is %v, yet in %v one waiter cost %d requests", e.caps.Wake, e.ttl, one)
			}
			for range 99 {
				all = append(all, e.begin(waiters, holder.Name()))
			}
			e.sleep(100 * time.Millisecond)
			if hundred := count(2*one + 5); hundred > 2*one+5 {
				e.failf("in %v one waiter cost %d requests, a hundred %d", e.ttl, one, hundred)
			}
			e.release(holder)
			for _, w := range all { // they get it one after the other, or are cancelled
				w.cancel()
			}
			for _, w := range all {
				_ = w.giveUp()
			}
		}).needing(NeedRequests),
	full("held-locks", "P8 no leaks: many locks are renewed together, with a number of goroutines that does not grow with them", func(e *Env) {
		c := e.client()
		goroutines := func(locks int) int {
			names := make([]string, locks)
			for i := range names {
				names[i] = e.name()
				e.acquire(c, names[i])
			}
			// The least of some looks, since renewals come and go.
			least := 1 << 30
			for range 10 {
				least = min(least, countLabelled(e.prefix))
				e.sleep(e.ttl / 50)
			}
			return least
		}
		few := goroutines(20)
		many := goroutines(300)
		if many > few+30 {
			e.failf("20 held locks need %d goroutines, 320 need %d", few, many)
		}
	}),
	full("held-locks-stay", "P1 exclusion: many locks that one client holds are all renewed in time", func(e *Env) {
		c, other := e.client(), e.party()
		const n = 300
		locks := make([]*lockport.Lock, n)
		for i := range locks {
			locks[i] = e.acquire(c, e.name())
		}
		e.sleep(e.ttl * 5 / 2)
		for i, l := range locks {
			if err := l.Err(); err != nil {
				e.failf("lock %d of %d was lost on a server that is well: %w", i+1, n, err)
			}
			if i%30 == 0 {
				other.finds(l.Name(), "the holder has not released the name")
			}
		}
	}),
	full("connections", "P8 no leaks: connections do not grow with the number of locks that are held, as long as nobody waits", func(e *Env) {
		c := e.client()
		conns := func(locks int) int {
			for range locks {
				e.acquire(c, e.name())
			}
			n, err := e.conns()
			e.check(err, "Faults.Conns")
			return n
		}
		few := conns(5)
		if many := conns(200); many > few+20 {
			e.failf("5 held locks needed %d connections, 205 need %d", few, many)
		}
	}).needing(NeedConns),
)
