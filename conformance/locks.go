package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

// client opens the backend under test and makes a client with the case's TTL. It is closed when the case has ended.
func (e *Env) client(opts ...lockport.Option) *lockport.Client {
	return e.clientOf(e.party(), opts...)
}

func (e *Env) clientOf(b driver.Backend, opts ...lockport.Option) *lockport.Client {
	opts = append([]lockport.Option{lockport.TTL(e.ttl), lockport.Logger(nil), lockport.Label("conformance")}, opts...)
	c, err := lockport.New(b, opts...)
	e.check(err, "lockport.New")
	e.after(func() { _ = c.Close() })
	return c
}

// patient makes a client with a TTL that outlasts the waits of a case, so its claims end by release and not by expiry.
func (e *Env) patient() *lockport.Client { return e.client(lockport.TTL(e.longTTL())) }

// longTTL is the TTL of patient clients.
func (e *Env) longTTL() time.Duration { return e.atLeast(max(10*e.ttl, 10*time.Second)) }

// atLeast returns a TTL of at least d, or the fixed TTL.
func (e *Env) atLeast(d time.Duration) time.Duration {
	return allowedTTL(e.caps, max(d, e.ttl))
}

// acquire acquires a name that nobody has.
func (e *Env) acquire(c *lockport.Client, name string, opts ...lockport.AcquireOption) *lockport.Lock {
	return e.acquireWithin(c, name, e.takeover()+callTime, "nobody has the name", opts...)
}

// acquireWithin acquires name, and ends the case if that takes longer than limit.
func (e *Env) acquireWithin(c *lockport.Client, name string, limit time.Duration, why string, opts ...lockport.AcquireOption) *lockport.Lock {
	ctx, cancel := context.WithTimeout(e.ctx, limit)
	defer cancel()
	lock, err := acquire(ctx, c, name, opts...)
	e.check(err, "%s, but Acquire with a limit of %v returned", why, limit)
	return lock
}

// acquire is Acquire. errAway is part of its error if the server did not answer in time.
func acquire(ctx context.Context, c *lockport.Client, name string, opts ...lockport.AcquireOption) (*lockport.Lock, error) {
	lock, err := c.Acquire(ctx, name, opts...)
	if errors.Is(err, lockport.ErrUnavailable) {
		err = fmt.Errorf("%w (%w)", err, errAway)
	}
	return lock, err
}

// release releases locks that are held.
func (e *Env) release(locks ...*lockport.Lock) {
	for _, l := range locks {
		e.check(l.Release(e.ctx), "the release of a held lock failed")
	}
}

// lateRelease releases a lost lock, which must return ErrLost.
func (e *Env) lateRelease(l *lockport.Lock) {
	e.is(l.Release(e.ctx), "Release of a lost lock must return ErrLost; it returned", lockport.ErrLost)
}

// acquiring starts to acquire name in a goroutine.
func (e *Env) acquiring(c *lockport.Client, name string, opts ...lockport.AcquireOption) *call[*lockport.Lock] {
	return begin(e, "Acquire", func(ctx context.Context) (*lockport.Lock, error) { return acquire(ctx, c, name, opts...) })
}

// beginAndWait starts to acquire a held name. It returns when b, which only c uses, has refused a claim: from then on c waits.
func (e *Env) beginAndWait(c *lockport.Client, b *party, name string) *call[*lockport.Lock] {
	w := e.acquiring(c, name)
	e.eventually(callTime+endTime, func() bool { return b.refused.Load() || w.isOver() }, "Acquire finds the name held")
	w.notYet(100*time.Millisecond, "the name is held")
	return w
}

// giveUp cancels calls, and releases what they got: each is granted in turn, or canceled.
func (e *Env) giveUp(all []*call[*lockport.Lock]) {
	for _, w := range all {
		w.cancel()
	}
	for _, w := range all {
		if lock, err := w.ended(endTime, "its context has ended"); err == nil {
			_ = lock.Release(e.ctx)
		}
	}
}

// watch watches a lock through Lost and Context, called before the lock is lost. lostWithin waits until it is told of the loss.
func (e *Env) watch(l *lockport.Lock) (lostWithin func(limit time.Duration, why string)) {
	lost := l.Lost()
	ctx, cancel := l.Context(e.ctx)
	e.after(cancel)
	return func(limit time.Duration, why string) {
		e.lostWithin(l, limit, why)
		e.within(lost, endTime, "the lock is lost, but the channel that Lost returned earlier is not closed")
		e.within(ctx.Done(), endTime, "the lock is lost, but its context has not ended %v later", endTime)
		e.is(context.Cause(ctx), "the cause of the context's end must be ErrLost; it is", lockport.ErrLost)
	}
}

// lostWithin waits for the loss of a lock that nobody watched, and checks what the lock says then.
func (e *Env) lostWithin(l *lockport.Lock, limit time.Duration, why string) {
	select {
	case <-l.Lost():
	case <-time.After(limit):
		e.failf("%s, but after %v Lost is not closed (Valid: %t, Err: %v)", why, limit, l.Valid(), l.Err())
	}
	err := l.Err()
	e.require(!l.Valid() && errors.Is(err, lockport.ErrLost), "the lock is lost, but Valid is %t, and Err returns: %w", l.Valid(), err)
	if framed, ok := errors.AsType[*lockport.Error](err); !ok || framed.Name != l.Name() {
		e.failf("P10 errors: Err must be a *lockport.Error with the lock's name; it is: %w", err)
	}
}

// stillHeld checks that a lock is held, also by a claim of other.
func (e *Env) stillHeld(l *lockport.Lock, other *party, why string) {
	e.check(l.Err(), "%s, yet it is lost", why)
	other.wantHeld(l.Name(), why)
	e.check(l.Err(), "%s, yet it is lost", why)
}

// noticeTime is how soon the holder of l must learn of a removal: as stated, or else by the end of its validity.
func (e *Env) noticeTime(l *lockport.Lock) time.Duration {
	if notice := e.caps.RemovalNotice; notice != nil {
		return notice(e.ttl) + endTime
	}
	_, ends := l.Deadline()
	e.applies(ends, "Capabilities.RemovalNotice states no time, and claims do not expire")
	return e.ttl + endTime
}

// token returns the fencing token, 0 if there is none.
func token(l *lockport.Lock) uint64 {
	t, _ := l.Token()
	return uint64(t)
}
