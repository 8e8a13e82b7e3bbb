package conformance

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"time"

	"github.com/lockport/lockport/driver"
)

// party is a backend as one client would use it, for the cases that speak to the driver directly.
type party struct {
	driver.Backend
	e  *Env
	id string // what OwnerClient returns for its claims

	mu      sync.Mutex
	granted []driver.Request // what was granted through try, and may still be held
}

// party opens the backend under test.
func (e *Env) party() *party { return e.partyAt(e.cfg.Target) }

// observer opens a backend that no fault touches.
func (e *Env) observer() *party { return e.partyAt(e.cfg.Direct) }

func (e *Env) partyAt(target string) *party {
	p := &party{Backend: e.open(target), e: e, id: newPartyName()}
	e.after(p.tidy)
	return p
}

// tidy ends the claims that the case left, so that nobody has to wait for their TTL.
func (p *party) tidy() {
	ctx, cancel := p.e.detached(callTime)
	defer cancel()
	for _, req := range p.granted {
		_ = p.Abandon(ctx, req)
	}
}

// request makes a claim's request with an owner of its own.
func (p *party) request(name string) driver.Request {
	return driver.Request{Name: name, Owner: randomHex(16) + ":" + p.id, TTL: p.e.ttl}
}

// patientRequest makes one for a claim that outlasts what a case waits for, where the session does not have one TTL.
func (p *party) patientRequest(name string) driver.Request {
	req := p.request(name)
	if p.e.caps.FixedTTL == 0 {
		req.TTL = p.e.longTTL()
	}
	return req
}

// optional is what the party's backend is beside a driver.Backend; a case that needs it is not run without.
func optional[T any](p *party) T {
	found, ok := driver.As[T](p.Backend)
	if !ok {
		p.e.notRun("the backend is no %v", reflect.TypeFor[T]())
	}
	return found
}

// timed bounds one call to a backend that answers.
func (e *Env) timed() (context.Context, context.CancelFunc) {
	return context.WithTimeout(e.ctx, callTime)
}

// callTime is how long one call to a server that is well may take.
const callTime = 5 * time.Second

// try makes a claim, and ends the case if what the driver returns is against the contract.
func (p *party) try(req driver.Request) (driver.Lease, error) {
	ctx, cancel := p.e.timed()
	defer cancel()
	lease, err := p.sound(p.TryAcquire(ctx, req))
	if err == nil {
		p.remember(req)
	}
	return lease, err
}

// remember has a claim ended when the case has.
func (p *party) remember(req driver.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.granted = append(p.granted, req)
}

// sound holds the form of what TryAcquire, Wait and Requeue return against the contract.
func (p *party) sound(lease driver.Lease, err error) (driver.Lease, error) {
	switch {
	case err == nil && lease == nil:
		p.e.failf("the driver returned neither a lease nor an error")
	case err != nil && lease != nil:
		p.e.failf("the driver returned both a lease and an error: %w", err)
	case errors.Is(err, driver.ErrLost):
		p.e.failf("a claim returned ErrLost, which is for leases: %w", err)
	}
	p.e.check(oneClass(err), "claim")
	return lease, err
}

// claim makes a claim that must be granted, since nobody has the name.
func (p *party) claim(name string) driver.Lease {
	lease, _ := p.claimOf(p.request(name))
	return lease
}

// claimOf is claim for a request of the case's own. sent is from just before.
func (p *party) claimOf(req driver.Request) (lease driver.Lease, sent time.Time) {
	sent = time.Now()
	lease, err := p.try(req)
	p.e.check(err, "nobody has the name, yet a claim was not granted")
	return lease, sent
}

// finds makes a claim that must be ErrHeld. why says why.
func (p *party) finds(name, why string) {
	lease, err := p.try(p.request(name))
	if err == nil {
		p.e.failf("%s, yet another claim was granted (token %d)", why, lease.Grant().Token)
	}
	if !errors.Is(err, driver.ErrHeld) {
		p.e.failf("%s, so another claim must be ErrHeld; it was: %w", why, err)
	}
}

// free makes a claim that must be granted at once, and releases it. why says why.
func (p *party) free(name, why string) uint64 {
	lease, err := p.try(p.request(name))
	if err != nil {
		p.e.failf("%s, so a claim must be granted; it was: %w", why, err)
	}
	p.release(lease)
	return lease.Grant().Token
}

// isFree says whether a claim is granted at once, and releases it.
func (p *party) isFree(name string) bool {
	lease, err := p.try(p.request(name))
	if err == nil {
		p.release(lease)
	}
	return err == nil
}

// takes polls until a claim is granted, and ends the case if it is not within d.
func (p *party) takes(name string, d time.Duration, why string) driver.Lease {
	return p.takesOf(p.request(name), d, why)
}

// takesOf is takes for a request of the case's own.
func (p *party) takesOf(req driver.Request, d time.Duration, why string) driver.Lease {
	var lease driver.Lease
	var err error
	p.e.eventually(d, func() bool {
		lease, err = p.try(req)
		if err != nil && class(err) == driver.ErrUnknown {
			p.abandon(req)
			req.Owner = p.request(req.Name).Owner // one that was abandoned is not used again
		}
		return err == nil
	}, "%s, so a claim must be granted; the last one was: %v", why, lazily{&err})
	return lease
}

// release releases a lease that must be there.
func (p *party) release(lease driver.Lease) {
	p.e.check(p.releases(lease), "the release of a claim that is held failed")
}

// releases releases a lease and returns what the driver says.
func (p *party) releases(lease driver.Lease) error {
	ctx, cancel := p.e.timed()
	defer cancel()
	err := lease.Release(ctx)
	p.e.check(oneClass(err), "release")
	return err
}

// renews renews a lease and returns what the driver says.
func (p *party) renews(lease driver.Lease) (time.Time, error) {
	ctx, cancel := p.e.timed()
	defer cancel()
	until, err := lease.Renew(ctx)
	p.e.check(oneClass(err), "renewal")
	return until, err
}

// abandon abandons a claim, as often as the client would, and ends the case if it never succeeds.
func (p *party) abandon(req driver.Request) {
	// Name and owner alone must do.
	req.Lost, req.Contended, req.Queue = nil, nil, false
	var err error
	p.e.eventually(p.e.ttl+callTime, func() bool {
		ctx, cancel := p.e.timed()
		defer cancel()
		err = p.Abandon(ctx, req)
		return err == nil
	}, "Abandon of a claim, on a server that is well, returns nil (the last error was: %v)", lazily{&err})
}

// lazily prints what an error is when it is printed, not when it was passed.
type lazily struct{ err *error }

// String implements fmt.Stringer.
func (l lazily) String() string {
	if *l.err == nil {
		return "none"
	}
	return (*l.err).Error()
}

// keepAlive renews lease, which must be there, until stop is called. A renewal whose outcome is unknown is made again until the validity ends, as the client
// does. Where a claim has no end of its own it does nothing.
func (p *party) keepAlive(lease driver.Lease) (stop func()) {
	if lease.Grant().Until.IsZero() {
		return func() {}
	}
	valid := lease.Grant().Until
	ctx, cancel := context.WithCancel(p.e.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(p.e.ttl / 4)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			until, err := lease.Renew(p.e.ctx)
			switch late := !time.Now().Before(valid); {
			case err == nil:
				valid = until
			case ctx.Err() == nil && (errors.Is(err, driver.ErrLost) || late):
				p.e.fail(errors.Join(errors.New("a renewal of a claim that is held failed"), err))
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

// renewsIfItMust renews lease where claims are renewed.
func (p *party) renewsIfItMust(lease driver.Lease) (time.Time, error) {
	if lease.Grant().Until.IsZero() {
		return time.Time{}, nil
	}
	return p.renews(lease)
}
