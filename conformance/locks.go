package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

// patient makes a client whose claims outlast what a case waits for, so that they end because they are given back and not
// because their TTL has passed. Where the session has one TTL it is that.
func (e *Env) patient(opts ...lockport.Option) *lockport.Client {
	return e.patientOf(e.open(e.cfg.Target), opts...)
}

func (e *Env) patientOf(b driver.Backend, opts ...lockport.Option) *lockport.Client {
	if e.caps.FixedTTL == 0 {
		opts = append(opts, lockport.TTL(e.longTTL()))
	}
	return e.clientOf(b, opts...)
}

// longTTL is the TTL of patient clients.
func (e *Env) longTTL() time.Duration { return roundUp(max(10*e.ttl, 10*time.Second), e.caps.TTLGrain) }

// acquire acquires name, which nobody has.
func (e *Env) acquire(c *lockport.Client, name string, opts ...lockport.AcquireOption) *lockport.Lock {
	return e.acquireWithin(c, name, e.takeover()+callTime, "nobody has the name", opts...)
}

// acquireWithin acquires name, and ends the case if that takes longer than limit.
func (e *Env) acquireWithin(c *lockport.Client, name string, limit time.Duration, why string, opts ...lockport.AcquireOption) *lockport.Lock {
	ctx, cancel := context.WithTimeout(e.ctx, limit)
	defer cancel()
	lock, err := c.Acquire(ctx, name, opts...)
	if err != nil {
		e.failf("%s, but Acquire, with a limit of %v, returned: %w", why, limit, err)
	}
	return lock
}

// release releases a lock that is held.
func (e *Env) release(l *lockport.Lock) {
	e.check(l.Release(e.ctx), "the release of a lock that is held failed")
}

// lostWithin waits for the loss of a lock.
func (e *Env) lostWithin(l *lockport.Lock, limit time.Duration, why string) {
	select {
	case <-l.Lost():
	case <-time.After(limit):
		e.failf("%s, but after %v Lost is not closed (Valid: %t, Err: %v)", why, limit, l.Valid(), l.Err())
	}
	e.saysLost(l)
}

// closedWithin checks that what Lost returned before the loss is closed too.
func (e *Env) closedWithin(lost <-chan struct{}, limit time.Duration) {
	e.within(lost, limit, "the lock is lost, but the channel that Lost returned before that is not closed")
}

// saysLost checks what a lock that was lost says.
func (e *Env) saysLost(l *lockport.Lock) {
	if err := l.Err(); l.Valid() || !errors.Is(err, lockport.ErrLost) {
		e.failf("the lock is lost, but Valid is %t, and Err: %w", l.Valid(), orNone(err))
	}
	var framed *lockport.Error
	if !errors.As(l.Err(), &framed) || framed.Name != l.Name() {
		e.failf("P10 errors: Err is no *lockport.Error with the lock's name: %w", l.Err())
	}
}

// stays checks that a lock is held now, by asking another client too.
func (e *Env) stays(l *lockport.Lock, other *party, why string) {
	if err := l.Err(); err != nil {
		e.failf("%s, yet it is lost: %w", why, err)
	}
	other.finds(l.Name(), why)
	if err := l.Err(); err != nil {
		e.failf("%s, yet it is lost: %w", why, err)
	}
}

// begin begins to acquire name in a goroutine.
func (e *Env) begin(c *lockport.Client, name string, opts ...lockport.AcquireOption) *acquiring {
	ctx, cancel := context.WithCancel(e.ctx)
	a := &acquiring{e: e, cancel: cancel, over: make(chan struct{})}
	e.after(func() { cancel(); <-a.over })
	go func() {
		defer close(a.over)
		a.lock, a.err = c.Acquire(ctx, name, opts...)
	}()
	return a
}

// acquiring is an Acquire under way.
type acquiring struct {
	e      *Env
	cancel context.CancelFunc
	over   chan struct{}
	lock   *lockport.Lock
	err    error
}

// notYet checks that it still waits after d.
func (a *acquiring) notYet(d time.Duration, why string) {
	select {
	case <-a.over:
		if a.err == nil {
			a.e.failf("%s, yet another Acquire returned a lock", why)
		}
		a.e.failf("%s, so Acquire must wait; it returned: %w", why, a.err)
	case <-time.After(d):
	}
}

// waits returns when it has been refused once, through o, and a little later: from then on it waits, whatever becomes of the server.
func (a *acquiring) waits(o *opened, why string) {
	a.e.eventually(soon, o.refused.Load, "%s, and an Acquire is told so", why)
	a.notYet(100*time.Millisecond, why)
}

// granted waits for the lock.
func (a *acquiring) granted(limit time.Duration, why string) *lockport.Lock {
	a.e.within(a.over, limit, "%s, but a waiting Acquire did not return within %v", why, limit)
	if a.err != nil {
		a.e.failf("%s, but a waiting Acquire returned: %w", why, a.err)
	}
	return a.lock
}

// ended waits for its end, whatever it is, after its context ended or the client was closed.
func (a *acquiring) ended(limit time.Duration, why string) error {
	a.e.within(a.over, limit, "%s, but Acquire did not return within %v", why, limit)
	return a.err
}

// giveUp cancels it, and releases what it got.
func (a *acquiring) giveUp() error {
	a.cancel()
	err := a.ended(endTime, "its context has ended")
	if err == nil {
		_ = a.lock.Release(a.e.ctx)
	}
	return err
}

// token is the fencing token, 0 if there is none.
func token(l *lockport.Lock) uint64 {
	t, _ := l.Token()
	return uint64(t)
}

// rises checks that token comes after before, where there are tokens.
func (e *Env) rises(before, token uint64) {
	if e.caps.Token != driver.TokenNone && token <= before {
		e.failf("P2 fencing: token %d was given after token %d", token, before)
	}
}
