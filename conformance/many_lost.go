package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

// What is lost while many goroutines of the process wait, hand on, or hold other names.

// lostWhileManyWait has the server end a lock for which hundreds of goroutines of the holder's client wait, by end. That may return a function which
// lets them have it; then some may have had it, and lost it, before it was taken from them.
func lostWhileManyWait(e *Env, end func(l *lockport.Lock, b *beliefs) (free func())) {
	const waiters = 300
	c, other := e.client(), e.party()
	dead := e.acquire(c, e.name())
	name, lost := dead.Name(), dead.Lost()
	var b beliefs
	b.last.Store(token(dead))
	results := make(chan error, waiters)
	for i := range waiters {
		w := e.begin(c, name)
		go func() {
			<-w.over
			switch {
			case w.err != nil:
				results <- fmt.Errorf("an Acquire that waited in the process returned: %w", w.err)
			case w.lock.Owner() == dead.Owner():
				results <- errors.New("who waited in the process was handed the claim that the server had ended")
			default:
				results <- b.hold(e.ctx, w.lock, 0)
			}
		}()
		if i == waiters-1 {
			w.notYet(50*time.Millisecond, "the name is held")
		}
	}
	free := end(dead, &b)
	e.lostWithin(dead, e.noticeTime(), "the server ended the lock, for which many wait in the process")
	e.closedWithin(lost, endTime)
	if free != nil {
		other.finds(name, "somebody who is not a lockport client has the name")
		free()
	}
	late := time.After(e.takeover() + 2*soon)
	for i := range waiters {
		select {
		case err := <-results:
			e.check(err, "after the loss")
		case <-late:
			e.failf("the holder's lock was ended, and nobody hinders those who wait in the process, but %d of %d have not got the name", waiters-i, waiters)
		}
	}
	e.is(dead.Release(e.ctx), lockport.ErrLost, "the release of a lost lock returned")
	if b.holds != waiters && !b.losses.Load() {
		e.failf("%d holds were counted, %d took place", b.holds, waiters)
	}
	e.rises(b.last.Load()/driver.TokensPerGrant, other.free(name, "everybody has released the name"))
}

// lostWhileHandedOn has the server end a lock again and again that goroutines of a process hand to each other: who has it is told, and the others go on with
// another claim.
func lostWhileHandedOn(e *Env) {
	c, other := e.client(), e.party()
	name := e.name()
	var b beliefs
	var holds atomic.Int64
	ctx, cancel := context.WithCancel(e.ctx)
	var all sync.WaitGroup
	defer func() { cancel(); all.Wait() }()
	for range 32 {
		all.Go(func() {
			for ctx.Err() == nil {
				l, err := c.Acquire(ctx, name)
				if err == nil {
					err = b.hold(e.ctx, l, 200*time.Microsecond)
				}
				if err != nil && ctx.Err() == nil {
					e.fail(fmt.Errorf("the server forgot the lock while another goroutine had it, yet: %w", err))
					return
				}
				holds.Add(1)
			}
		})
	}
	for range 3 {
		before := holds.Load()
		e.eventually(e.takeover()+2*soon, func() bool { return holds.Load() >= before+40 || e.failure() != nil },
			"the server forgets the lock now and then, and goroutines that hand it to each other go on")
		e.stopIfFailed()
		l := e.acquireWithin(c, name, e.takeover()+soon, "the others hold the name for moments only")
		e.check(b.enter(l), "between two losses")
		e.remove(name)
		e.lostWithin(l, e.noticeTime(), "the server forgot the lock, which goroutines hand to each other")
		b.leave(l)
		e.is(l.Release(e.ctx), lockport.ErrLost, "the release of a lost lock returned")
	}
	cancel()
	all.Wait()
	e.stopIfFailed()
	next := other.takes(name, e.takeover(), "everybody has released the name or lost it")
	e.rises(b.last.Load()/driver.TokensPerGrant, next.Grant().Token)
	e.stillHolds(other, name, next, "those who lost it earlier are told")
}

// someOfMany has the server end a few of many locks that are renewed together.
func someOfMany(e *Env) {
	const n = 40
	c, other := e.client(), e.party()
	locks := make([]*lockport.Lock, n)
	for i := range locks {
		locks[i] = e.acquire(c, e.name())
	}
	e.sleep(e.ttl / 2) // they have been renewed by then
	rand.Shuffle(n, func(i, j int) { locks[i], locks[j] = locks[j], locks[i] })
	gone, kept := locks[:3], locks[3:]
	e.remove(gone[0].Name())
	e.remove(gone[1].Name())
	e.overwrite(gone[2].Name())
	for _, l := range gone {
		e.lostWithin(l, e.noticeTime(), fmt.Sprintf("of %d locks that are renewed together the server ended this one", n))
	}
	if e.caps.Ends == driver.EndsSession && other.isFree(kept[0].Name()) {
		e.notRun("the locks of a session end together")
	}
	next := other.takes(gone[0].Name(), e.takeover(), "the server forgot the lock")
	stop := other.keepAlive(next)
	for end := time.Now().Add(2*e.ttl + e.ttl/2); time.Now().Before(end); e.sleep(e.ttl / 4) {
		for _, l := range kept {
			if err := l.Err(); err != nil {
				e.failf("of %d locks that are renewed together the server ended three, and another one is lost too: %w", n, err)
			}
		}
		other.finds(kept[rand.IntN(len(kept))].Name(), "the lock is renewed, together with some that are gone")
	}
	for _, l := range kept {
		e.stays(l, other, "the lock is renewed, together with some that are gone")
		e.release(l)
	}
	other.finds(gone[2].Name(), "somebody who is not a lockport client has the name")
	stop()
	e.stillHolds(other, gone[0].Name(), next, "the one who lost it has renewed others since")
}
