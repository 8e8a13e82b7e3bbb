package conformance

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

// livenessCases are about P7: who waits gets its turn.
var livenessCases = group("liveness",
	full("hand-offs", "P7 liveness: no wake-up is lost: of two clients that wait in turn, each gets the name when the other has released it", func(e *Env) {
		a, b := e.client(), e.client()
		name := e.name()
		const rounds, slow = 40, 500 * time.Millisecond
		holder := e.acquire(a, name)
		slowOnes := 0
		for i := range rounds {
			next := e.begin([]*lockport.Client{b, a}[i%2], name)
			next.notYet(time.Duration(i%5)*2*time.Millisecond, "the name is held") // it has begun to wait, or not yet
			start := time.Now()
			e.release(holder)
			holder = next.granted(e.takeover(), "the name was released")
			if time.Since(start) > slow {
				slowOnes++
			}
		}
		e.release(holder)
		// Now and then the safety net may do; a wake-up that never comes shows as one pause after the other.
		if e.caps.Wake != driver.WakePoll && slowOnes > rounds/10 {
			e.failf("waiters are told when a name is free (Capabilities.Wake: %v), but in %d of %d hand-offs the next one took %v or more",
				e.caps.Wake, slowOnes, rounds, slow)
		}
	}),
	full("crowd", "P7 liveness: everybody in a crowd of waiting clients gets the name", func(e *Env) {
		const clients, rounds = 6, 10
		all := make([]*lockport.Client, clients)
		for i := range all {
			all[i] = e.client()
		}
		name := e.name()
		e.storm(clients, rounds, func(ctx context.Context, i int) error {
			ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
			defer cancel()
			l, err := all[i].Acquire(ctx, name)
			if err != nil {
				return err
			}
			return l.Release(ctx)
		})
		e.party().free(name, "everybody has released the name")
	}).within(time.Minute),
	quick("first-in-first-out", "P7 liveness: inside a process waiters are served first in, first out", func(e *Env) {
		// When a goroutine has begun to wait cannot be seen from outside, so each gets a moment, and three attempts.
		var err error
		for range 3 {
			if err = firstInFirstOut(e); err == nil {
				return
			}
		}
		e.must(err)
	}),
	full("order-of-clients", "capabilities: where Fair is stated, clients get the name in the order in which they began to wait", func(e *Env) {
		if e.caps.Fair == driver.FairNone {
			e.notRun("Capabilities.Fair states no order")
		}
		var err error
		for range 3 {
			if err = orderOfClients(e); err == nil || e.caps.Fair == driver.FairFIFO {
				e.must(err)
				return
			}
		}
		e.must(err)
	}),
	full("no-starvation",
		"P7 liveness: goroutines that hand a name to each other do not keep it from another client that waits, where Contended or Fair is stated", func(e *Env) {
			if !e.caps.Contended && e.caps.Fair == driver.FairNone {
				e.notRun("neither Contended nor Fair is stated")
			}
			a, b := e.client(), e.client()
			name := e.name()
			ctx, cancel := context.WithCancel(e.ctx)
			var greedy sync.WaitGroup
			var holds atomic.Int64
			defer func() { cancel(); greedy.Wait() }()
			for range 16 { // so many that one always waits
				greedy.Go(func() {
					for ctx.Err() == nil {
						l, err := a.Acquire(ctx, name)
						if err != nil {
							return
						}
						holds.Add(1)
						<-time.After(100 * time.Microsecond)
						_ = l.Release(e.ctx)
					}
				})
			}
			for range 5 {
				before := holds.Load()
				e.eventually(soon, func() bool { return holds.Load() >= before+20 }, "the goroutines hand the name to each other")
				e.release(e.acquireWithin(b, name, soon, "the other client holds the name for moments only"))
			}
		}),
	full("server-gone", ruleOutage+" (it could not be reached)", func(e *Env) { waitThrough(e, e.sever) }).needing(NeedSever, NeedDirect),
	full("server-frozen", ruleOutage+" (it said nothing)", func(e *Env) { waitThrough(e, e.freeze) }).needing(NeedFreeze, NeedDirect),
	full("cut", "P7 liveness: a waiter whose connections were closed gets the lock when it is released", func(e *Env) {
		holder := e.acquire(e.clientOf(e.open(e.cfg.Direct)), e.name())
		b := e.open(e.cfg.Target)
		next := e.begin(e.clientOf(b), holder.Name())
		next.waits(b, "the name is held")
		for range 3 {
			e.cut()
			next.notYet(50*time.Millisecond, "the name is held")
		}
		e.release(holder)
		e.release(next.granted(e.takeover()+callTime, "the name was released"))
	}).needing(NeedCut, NeedDirect),
	full("server-restarted", "P7 liveness: waiters recover when the server was restarted; the lock that was held is kept or its loss told", func(e *Env) {
		b := e.open(e.cfg.Target)
		l := e.acquire(e.client(), e.name())
		next := e.begin(e.clientOf(b), l.Name())
		next.waits(b, "the name is held")
		e.restart(true)
		select {
		case <-next.over: // the server forgot the holder
		case <-time.After(e.ttl / 2):
		}
		if err := l.Release(e.ctx); err != nil && !errors.Is(err, lockport.ErrLost) && !errors.Is(err, lockport.ErrUnavailable) {
			e.failf("Release returned: %w", err)
		}
		e.release(next.granted(e.takeover()+2*callTime, "the server is back and the name was released"))
	}).needing(NeedRestart),
)

const ruleOutage = "P7 liveness: a waiter rides out an outage of the server and gets the lock afterwards"

// waitThrough has a client wait while its server is away for longer than the TTL.
func waitThrough(e *Env, fault func()) {
	holder := e.acquire(e.clientOf(e.open(e.cfg.Direct)), e.name())
	b := e.open(e.cfg.Target)
	c := e.clientOf(b)
	early := e.begin(c, holder.Name())
	late := e.begin(c, holder.Name())
	early.waits(b, "the name is held")
	fault()
	early.notYet(e.ttl*5/4, "the name is held, and the server is away")
	late.cancel() // to give up waiting needs no server
	e.is(late.ended(endTime, "its context has ended"), context.Canceled, "a waiting Acquire whose context was cancelled returned")
	e.release(holder)
	e.restore()
	e.release(early.granted(e.takeover()+2*callTime, "the server is back and the name was released"))
}

// firstInFirstOut lets goroutines wait one after the other.
func firstInFirstOut(e *Env) error {
	const n = 8
	c := e.client()
	l := e.acquire(c, e.name())
	order := make(chan int, n)
	var all []*acquiring
	for i := range n {
		w := e.begin(c, l.Name())
		w.notYet(3*time.Millisecond, "the name is held")
		all = append(all, w)
		go func() {
			<-w.over
			if w.err == nil {
				order <- i
				_ = w.lock.Release(e.ctx)
			}
		}()
	}
	e.release(l)
	for i := range n {
		select {
		case got := <-order:
			if got != i {
				for _, w := range all {
					w.cancel()
				}
				return errors.New("goroutines that began to wait one after the other were served in another order")
			}
		case <-time.After(e.takeover()):
			e.failf("the name was released, but goroutine %d of %d did not get it", i+1, n)
		}
	}
	return nil
}

// orderOfClients lets clients wait one after the other.
func orderOfClients(e *Env) error {
	l := e.acquire(e.client(), e.name())
	var all []*acquiring
	for range 4 {
		b := e.open(e.cfg.Target)
		w := e.begin(e.clientOf(b), l.Name())
		w.waits(b, "the name is held") // and the server knows of it by then
		all = append(all, w)
	}
	e.release(l)
	for i, w := range all {
		lock := w.granted(e.takeover(), "the name was released")
		for j := i + 1; j < len(all); j++ {
			select {
			case <-all[j].over:
				for _, w := range all {
					_ = w.giveUp()
				}
				return errors.New("a client got the name before another that had begun to wait earlier")
			default:
			}
		}
		e.release(lock)
	}
	return nil
}
