package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

// detachCases test claims that pass from one client to another. They run if Capabilities.Detach is stated.
var detachCases = stated("detach", func(c driver.Capabilities) bool { return c.Detach }, "Capabilities.Detach",
	quick("attached", "contract: a detached claim excludes others until one owner attaches it, with its token", func(e *Env) {
		a, b, name := e.two()
		req, lease := a.detached(name)
		e.party().wantHeld(name, "the claim is detached")
		mine := b.request(name)
		took, err := b.attach(mine, req.Owner, lease)
		e.check(err, "Attach of a detached claim")
		e.is(errOf(b.attach(mine, req.Owner, lease)), "a repeated Attach by the same owner must return nil or ErrLost; it returned", nil, driver.ErrLost)
		e.require(took.Grant().Token == lease.Grant().Token, "Attach changed the token from %d to %d", lease.Grant().Token, took.Grant().Token)
		_, err = a.attach(a.request(name), req.Owner, lease)
		e.is(err, "the second Attach of a claim was not ErrLost but", driver.ErrLost)
		a.wantHeld(name, "the claim was attached")
		e.check(b.renewIfNeeded(took), "the renewal of an attached claim failed")
		b.release(took)
		next := a.wantFree(name, "the attached claim was released")
		e.rises(lease.Grant().Token, next)
	}),
	quick("one-wins", "contract, P6 cancellation: of many concurrent Attach calls for a claim, exactly one succeeds; when all are abandoned, the name is free", func(e *Env) {
		a, name := e.party(), e.name()
		parties := []*party{e.party(), e.party()}
		req := a.patientRequest(name)
		lease := a.claimAs(req)
		a.detach(lease)
		var won, unknown atomic.Int64
		var all [8]driver.Request
		e.storm(8, func(_ context.Context, i int) error {
			p := parties[i%2]
			mine := p.patientRequest(name)
			all[i] = mine
			_, err := p.attach(mine, req.Owner, lease)
			switch {
			case err == nil:
				won.Add(1)
			case class(err) == driver.ErrUnknown && !errors.Is(err, driver.ErrLost):
				p.abandon(mine)
				unknown.Add(1)
			case !errors.Is(err, driver.ErrLost):
				return fmt.Errorf("the call of Attach must return nil or ErrLost; it returned: %w", err)
			}
			return nil
		})
		n := won.Load()
		e.require(n == 1 || n == 0 && unknown.Load() > 0, "of 8 Attach calls for one claim %d succeeded", n)
		for i, mine := range all {
			parties[i%2].abandon(mine)
		}
		a.wantFree(name, "the attached claim was abandoned")
	}),
	quick("waiters", "contract: while a claim passes between clients no waiter gets its name; after its release the first one does", func(e *Env) {
		a, b, name := e.client(), e.client(), e.name()
		lock, next := e.acquire(a, name), e.acquiring(e.client(), name)
		for i := range 4 {
			ticket, err := lock.Detach(e.ctx)
			e.check(err, "Detach")
			next.notYet(10*time.Millisecond, "the claim is detached")
			before := lock
			lock, err = []*lockport.Client{b, a}[i%2].Attach(e.ctx, ticket)
			e.check(err, "Attach")
			e.require(token(lock) == token(before), "Attach changed the token from %d to %d", token(before), token(lock))
			next.notYet(10*time.Millisecond, "the claim is attached")
		}
		e.release(lock)
		e.release(next.granted(soon, "the attached lock was released"))
	}),
	full("expired", "P5 crash: a detached claim that is not attached ends with its TTL, even while its client lives; then Attach is ErrLost", func(e *Env) {
		a, b, name := e.two()
		req := a.request(name)
		lease := a.claimAs(req)
		defer a.keepAlive(a.claim(e.name()))() // the client's other claims must not keep it alive
		e.sleep(e.ttl / 2)
		asked := time.Now()
		a.detach(lease)
		next := b.take(name, e.takeover(), "a detached claim ends with its TTL")
		took := time.Since(asked)
		e.require(took >= e.ttl*9/10, "a detached claim ended after only %v, before its TTL", took)
		_, err := a.attach(a.request(name), req.Owner, lease)
		e.is(err, "Attach of an expired claim was not ErrLost but", driver.ErrLost)
		b.stillHolds(name, next, "another client tried to attach the expired claim")
	}),
	full("renewed", "P3a silence: an attached claim is renewed and expires like a granted one", func(e *Env) {
		a, b, name := e.client(), e.client(), e.name()
		lock := e.acquire(a, name)
		ticket, err := lock.Detach(e.ctx)
		e.check(err, "Detach")
		e.check(a.Close(), "Close of the client that detached the lock")
		attached, err := b.Attach(e.ctx, ticket)
		e.check(err, "Attach")
		c := e.party()
		e.during(e.takeover(), func() { e.stillHeld(attached, c, "the attached lock is renewed") })
		e.release(attached)
		c.wantFree(name, "the attached lock was released")
		first, second, unrenewed := e.party(), e.party(), e.name()
		req, lease := first.detached(unrenewed)
		took, err := second.attach(second.request(unrenewed), req.Owner, lease)
		e.check(err, "Attach of a detached claim")
		c.release(c.afterExpiry(took, took.Grant().Until, unrenewed))
	}),
)

// detached claims a name and detaches the claim.
func (p *party) detached(name string) (driver.Request, driver.Lease) {
	req := p.request(name)
	lease := p.claimAs(req)
	p.detach(lease)
	return req, lease
}

// detach detaches a held claim.
func (p *party) detach(lease driver.Lease) {
	attacher := optional[driver.Attacher](p)
	p.e.check(p.e.timed(func(ctx context.Context) error { return attacher.Detach(ctx, lease) }), "Detach of a held claim")
}

// attach attaches the claim of owner that lease was, and abandons it when the case has ended. Any goroutine may call it.
func (p *party) attach(req driver.Request, owner string, lease driver.Lease) (took driver.Lease, err error) {
	attacher := optional[driver.Attacher](p)
	err = p.e.timed(func(ctx context.Context) (err error) {
		took, err = attacher.Attach(ctx, req, owner, lease.Grant().Token)
		return err
	})
	if err == nil {
		p.abandonAtEnd(req)
	}
	return took, err
}
