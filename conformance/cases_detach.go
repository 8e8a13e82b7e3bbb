package conformance

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

// detachCases are about claims that pass from one client to another, where Capabilities.Detach is stated.
var detachCases = stated("detach", func(c driver.Capabilities) bool { return c.Detach }, "Capabilities.Detach",
	quick("attached", "contract: a detached claim is attached with its token, by one other owner, and nobody else has the name between", func(e *Env) {
		a, b, name := e.two()
		req := a.request(name)
		lease := a.claimOf(req)
		a.detaches(lease)
		e.party().finds(name, "the claim is detached")
		took, err := b.attaches(b.request(name), req.Owner, lease)
		e.check(err, "Attach of a detached claim")
		e.require(took.Grant().Token == lease.Grant().Token, "the claim had token %d, and has token %d since it was attached", lease.Grant().Token, took.Grant().Token)
		_, err = a.attaches(a.request(name), req.Owner, lease)
		e.is(err, "the second Attach of a claim was not ErrLost but", driver.ErrLost)
		a.finds(name, "the claim was attached")
		e.check(b.renewsIfItMust(took), "the renewal of an attached claim")
		b.release(took)
		next := a.free(name, "the attached claim was released")
		e.rises(lease.Grant().Token, next)
	}),
	quick("one-wins", "contract: of many who attach a claim at once, one alone succeeds", func(e *Env) {
		a, name := e.party(), e.name()
		parties := []*party{e.party(), e.party()}
		req := a.patientRequest(name)
		lease := a.claimOf(req)
		a.detaches(lease)
		var won, unknown atomic.Int64
		e.storm(8, func(_ context.Context, i int) error {
			p := parties[i%2]
			mine := p.patientRequest(name)
			_, err := p.attaches(mine, req.Owner, lease)
			switch {
			case err == nil:
				won.Add(1)
			case class(err) == driver.ErrUnknown && !errors.Is(err, driver.ErrLost):
				p.abandon(mine)
				unknown.Add(1)
			case !errors.Is(err, driver.ErrLost):
				return err
			}
			return nil
		})
		n := won.Load()
		e.require(n == 1 || n == 0 && unknown.Load() > 0, "of 8 who attached the claim %d succeeded", n)
	}),
	quick("abandoned", "P6 cancellation: a claim whose Attach was abandoned is nobody's", func(e *Env) {
		a, b, name := e.two()
		req := a.request(name)
		lease := a.claimOf(req)
		a.detaches(lease)
		mine := b.request(name)
		_, err := b.attaches(mine, req.Owner, lease)
		e.check(err, "Attach of a detached claim")
		b.abandon(mine)
		a.free(name, "the attached claim was abandoned")
	}),
	quick("waiters", "contract: nobody who waits gets a name while its claim passes from one client to another, and the first does when it is released", func(e *Env) {
		a, b, name := e.client(), e.client(), e.name()
		lock, next := e.acquire(a, name), e.begin(e.client(), name)
		for i := range 4 {
			ticket, err := lock.Detach(e.ctx)
			e.check(err, "Detach")
			next.notYet(10*time.Millisecond, "the claim is detached")
			before := lock
			lock, err = []*lockport.Client{b, a}[i%2].Attach(e.ctx, ticket)
			e.check(err, "Attach")
			e.require(token(lock) == token(before), "the lock had token %d, and has token %d since it was attached", token(before), token(lock))
			next.notYet(10*time.Millisecond, "the claim is attached")
		}
		e.release(lock)
		e.release(next.granted(soon, "the attached lock was released"))
	}),
	full("expired", "P5 crash: a detached claim that nobody attaches ends with its TTL, also while its client lives, and cannot be attached then", func(e *Env) {
		a, b, name := e.two()
		req := a.request(name)
		lease := a.claimOf(req)
		defer a.keepAlive(a.claim(e.name()))() // what other claims of this client share must not keep it
		e.sleep(e.ttl / 2)
		asked := time.Now()
		a.detaches(lease)
		next := b.takes(name, e.takeover(), "a detached claim ends with its TTL")
		took := time.Since(asked)
		e.require(took >= e.ttl*9/10, "a detached claim ended after %v, before its TTL", took)
		_, err := a.attaches(a.request(name), req.Owner, lease)
		e.is(err, "Attach of a claim that has ended was not ErrLost but", driver.ErrLost)
		b.stillHolds(name, next, "somebody tried to attach the claim before it")
	}),
	full("renewed", "P3a silence: an attached claim is renewed, and ends, as one that was granted", func(e *Env) {
		a, b, name := e.client(), e.client(), e.name()
		lock := e.acquire(a, name)
		ticket, err := lock.Detach(e.ctx)
		e.check(err, "Detach")
		e.check(a.Close(), "Close of the client that has detached the lock")
		attached, err := b.Attach(e.ctx, ticket)
		e.check(err, "Attach")
		c := e.party()
		e.during(e.takeover(), e.ttl/10, func() { e.stays(attached, c, "the attached lock is renewed") })
		e.release(attached)
		c.free(name, "the attached lock was released")
		first, second, unrenewed := e.party(), e.party(), e.name()
		req := first.request(unrenewed)
		lease := first.claimOf(req)
		first.detaches(lease)
		took, err := second.attaches(second.request(unrenewed), req.Owner, lease)
		e.check(err, "Attach of a detached claim")
		c.release(c.afterExpiry(took, took.Grant().Until, unrenewed))
	}),
)

// severalCases are about several names at once.
var severalCases = group("several",
	quick("all-or-none", "P1 exclusion: AcquireAll has all of its names or none, and gives back all on every path", func(e *Env) {
		a, b := e.client(), e.client()
		names := []string{e.name(), e.name(), e.name()}
		held := e.acquire(b, names[1])
		_, err := lockport.TryAcquireAll(e.ctx, a, names)
		e.is(err, "one of the names is held, yet TryAcquireAll was not ErrHeld but", lockport.ErrHeld)
		ctx, cancel := context.WithTimeout(e.ctx, 50*time.Millisecond)
		defer cancel()
		_, err = lockport.AcquireAll(ctx, a, names)
		e.is(err, "one of the names is held, yet AcquireAll did not end with its context but was", context.DeadlineExceeded)
		c := e.party()
		for _, i := range []int{0, 2} {
			c.frees(names[i], soon, "not all of the names were to be had, so none is held")
		}
		e.release(held)
		set, err := lockport.AcquireAll(e.ctx, a, names)
		e.check(err, "nobody has the names, but AcquireAll")
		for _, name := range names {
			c.finds(name, "AcquireAll has the name")
		}
		e.check(set.Release(e.ctx), "Release of the set")
		for _, name := range names {
			c.free(name, "the set was released")
		}
	}),
	full("no-deadlock", "P7 liveness: clients that acquire overlapping sets, in whatever order they name them, all get theirs", func(e *Env) {
		clients, names := []*lockport.Client{e.client(), e.client(), e.client()}, []string{e.name(), e.name(), e.name()}
		holders := make([]atomic.Int64, len(names))
		e.storm(9, func(ctx context.Context, i int) error {
			mine := []int{i % 3, (i/3 + i + 1) % 3}
			if mine[0] == mine[1] {
				mine = []int{2, 0, 1}
			}
			for range 5 {
				var wanted []string
				for _, n := range mine {
					wanted = append(wanted, names[n])
				}
				err := lockport.DoAll(ctx, clients[i%3], wanted, func(context.Context, *lockport.Set) error {
					for _, n := range mine {
						defer holders[n].Add(-1)
						if holders[n].Add(1) > 1 {
							return errors.New("two sets have one name")
						}
					}
					<-time.After(time.Millisecond)
					return nil
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
	}),
)

// attacher is the party's Attacher.
func (p *party) attacher() driver.Attacher { return optional[driver.Attacher](p) }

// detaches detaches a claim that is held.
func (p *party) detaches(lease driver.Lease) {
	ctx, cancel := p.e.timed()
	defer cancel()
	p.e.check(p.attacher().Detach(ctx, lease), "Detach of a claim that is held")
}

// attaches attaches what lease was, a claim of owner. It is abandoned when the case has ended. Any goroutine may call it.
func (p *party) attaches(req driver.Request, owner string, lease driver.Lease) (driver.Lease, error) {
	ctx, cancel := p.e.timed()
	defer cancel()
	took, err := p.attacher().Attach(ctx, req, owner, lease.Grant().Token)
	if err == nil {
		p.abandonAtEnd(req)
	}
	return took, err
}
