package conformance

import (
	"context"
	"errors"
	"os"
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport/driver"
)

// How long things may take. The suite asserts no speed: these bounds are far above what a correct backend needs, and far below
// what a broken one takes, on a busy machine too.
const (
	// soon is for what follows at once from something else: a wake-up, a callback, the end of a wait.
	soon = 2 * time.Second
	// endTime is how long after the end of its context a call may return. Promised are 100 ms in 99 cases of 100.
	endTime = time.Second
	// callTime is how long one call to a server that is well may take.
	callTime = 5 * time.Second
)

// takeover is how long after its holder fell silent a name may be taken: the TTL, and what a server's clockwork adds.
func (e *Env) takeover() time.Duration { return e.ttl + e.ttl/4 + 1500*time.Millisecond }

// party is a backend as one client would use it. It holds the form of what claims return against the contract, and says whether one was refused.
type party struct {
	driver.Backend
	e       *Env
	id      string // what OwnerClient returns for its claims
	once    sync.Once
	refused atomic.Bool // a claim was, because somebody else has the name
}

// open opens a backend at target that is closed when the case has ended, unless the case closes it.
func (e *Env) open(target string) *party {
	b, err := e.cfg.Open(e.ctx, target)
	e.check(err, "Config.Open")
	p := &party{Backend: b, e: e, id: newPartyName()}
	e.after(func() { _ = p.Close() })
	return p
}

// party opens the backend under test.
func (e *Env) party() *party { return e.open(e.cfg.Target) }

// observer opens a backend that no fault touches.
func (e *Env) observer() *party { return e.open(e.cfg.Direct) }

// two opens the backend under test twice, and makes a name.
func (e *Env) two() (a, b *party, name string) { return e.party(), e.party(), e.name() }

// held is two, with the name claimed by a.
func (e *Env) held() (a, b *party, name string, lease driver.Lease) {
	a, b, name = e.two()
	return a, b, name, a.claim(name)
}

// Unwrap implements driver.Unwrapper.
func (p *party) Unwrap() driver.Backend { return p.Backend }

// TryAcquire implements driver.Backend.
func (p *party) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	lease, err := p.e.sound(p.Backend.TryAcquire(ctx, req))
	if errors.Is(err, driver.ErrHeld) {
		p.refused.Store(true)
	}
	return lease, err
}

// Close implements driver.Backend.
func (p *party) Close() (err error) {
	p.once.Do(func() { err = p.Backend.Close() })
	return err
}

// newPartyName makes what OwnerClient returns for the claims of one backend.
func newPartyName() string {
	host, err := os.Hostname()
	if err != nil || len(host) > 64 {
		host = "host"
	}
	return host + "/" + strconv.Itoa(os.Getpid()) + "/conformance/" + randomHex(4)
}

// connected has a connection made, by a claim on another name.
func (p *party) connected() *party {
	p.free(p.e.name(), "the name is new")
	return p
}

// request makes a claim's request with an owner of its own.
func (p *party) request(name string) driver.Request {
	return driver.Request{Name: name, Owner: randomHex(16) + ":" + p.id, TTL: p.e.ttl}
}

// patientRequest makes one for a claim that outlasts what a case waits for.
func (p *party) patientRequest(name string) driver.Request { return p.e.patiently(p.request(name)) }

// patiently gives req the TTL of patient clients, where the session does not have one TTL.
func (e *Env) patiently(req driver.Request) driver.Request {
	if e.caps.FixedTTL == 0 {
		req.TTL = e.longTTL()
	}
	return req
}

// A mode makes the request of a claim: request, reading, or one of those for permits.
type mode func(p *party, name string) driver.Request

// queueing makes one that joins the queue, where there is one.
func (p *party) queueing(name string) driver.Request {
	req := p.request(name)
	req.Queue = p.e.caps.Queue
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

// try makes a claim, which is abandoned when the case has ended, so that nobody has to wait for its TTL. Any goroutine may call it.
func (p *party) try(req driver.Request) (driver.Lease, error) { return p.tryIn(p.e.ctx, req) }

// tryIn is try in a context of its own.
func (p *party) tryIn(ctx context.Context, req driver.Request) (driver.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	lease, err := p.TryAcquire(ctx, req)
	if err == nil {
		p.abandonAtEnd(req)
	}
	return lease, err
}

// abandonAtEnd abandons a claim when the case has ended.
func (p *party) abandonAtEnd(req driver.Request) {
	p.e.after(func() {
		ctx, cancel := p.e.detached(callTime)
		defer cancel()
		_ = p.Abandon(ctx, req)
	})
}

// claim makes a claim that must be granted, since nobody has the name.
func (p *party) claim(name string) driver.Lease { return p.claimOf(p.request(name)) }

// claimOf is claim for a request of the case's own.
func (p *party) claimOf(req driver.Request) driver.Lease {
	lease, err := p.try(req)
	p.e.check(err, "nobody has the name, yet a claim was not granted")
	return lease
}

// finds makes a claim that must be ErrHeld. why says why.
func (p *party) finds(name, why string) { p.findsAs(p.request(name), why) }

// findsAs is finds for a request of the case's own.
func (p *party) findsAs(req driver.Request, why string) {
	lease, err := p.try(req)
	p.e.refused(lease, err, why)
}

// refused checks that a claim was ErrHeld. why says why.
func (e *Env) refused(lease driver.Lease, err error, why string) {
	if err == nil {
		e.failf("%s, yet another claim was granted (token %d)", why, lease.Grant().Token)
	}
	e.is(err, why+", so another claim must be ErrHeld; it was", driver.ErrHeld)
}

// free makes a claim that must be granted at once, releases it, and returns its token. why says why.
func (p *party) free(name, why string) uint64 { return p.frees(name, 0, why) }

// frees is free for a claim that must be granted within d.
func (p *party) frees(name string, d time.Duration, why string) uint64 {
	return p.freesOf(p.request(name), d, why)
}

// freesOf is frees for a request of the case's own.
func (p *party) freesOf(req driver.Request, d time.Duration, why string) uint64 {
	lease := p.takesOf(req, d, why)
	p.release(lease)
	return lease.Grant().Token
}

// takes polls until a claim is granted, and ends the case if it is not within d.
func (p *party) takes(name string, d time.Duration, why string) driver.Lease {
	return p.takesOf(p.request(name), d, why)
}

// takesOf is takes for a request of the case's own.
func (p *party) takesOf(req driver.Request, d time.Duration, why string) driver.Lease {
	var lease driver.Lease
	var err error
	if !poll(p.e.ctx, d, func() bool {
		lease, err = p.try(req)
		if err != nil && class(err) == driver.ErrUnknown {
			p.abandon(req)
			req.Owner = p.request(req.Name).Owner // one that was abandoned is not used again
		}
		return err == nil
	}) {
		p.e.failf("not within %v: %s, so a claim must be granted; the last one was: %w", d, why, err)
	}
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
	p.e.oneClass(err)
	return err
}

// renews renews a lease and returns what the driver says.
func (p *party) renews(lease driver.Lease) (time.Time, error) {
	ctx, cancel := p.e.timed()
	defer cancel()
	until, err := driver.Renew(ctx, p.Backend, lease)
	p.e.oneClass(err)
	return until, err
}

// renewsIfItMust renews lease where claims are renewed.
func (p *party) renewsIfItMust(lease driver.Lease) error {
	if lease.Grant().Until.IsZero() {
		return nil
	}
	return errOf(p.renews(lease))
}

// abandon abandons a claim, as often as the client would, and ends the case if it never succeeds.
func (p *party) abandon(req driver.Request) {
	req.Lost, req.Contended, req.Queue = nil, nil, false // name and owner alone must do
	var err error
	if !poll(p.e.ctx, p.e.ttl+callTime, func() bool {
		ctx, cancel := p.e.timed()
		defer cancel()
		err = p.Abandon(ctx, req)
		return err == nil
	}) {
		p.e.failf("Abandon of a claim, on a server that is well, must return nil; the last error was: %w", err)
	}
}

// settle does what the client does with the outcome of a claim that nobody wants any more: what may be held is undone, and
// what certainly has no effect is left alone.
func (p *party) settle(req driver.Request, lease driver.Lease, err error) {
	switch {
	case err == nil:
		err := p.releases(lease)
		ended := p.e.faulty && errors.Is(err, driver.ErrLost) && (p.e.caps.Ends != driver.EndsTTL || p.e.caps.FixedTTL > 0)
		if ended || err != nil && class(err) == driver.ErrUnknown { // its connection was cut just after the grant
			p.abandon(req)
			return
		}
		p.e.check(err, "the release of a claim that is held")
	case errors.Is(err, driver.ErrHeld):
		p.e.failf("nobody has the name, yet a claim was: %w", err)
	case !certain(err):
		p.abandon(req)
	}
}

// keepAlive renews lease, which must be there, until stop is called. A renewal whose outcome is unknown is made again until the validity ends, as the client
// does. Where a claim has no end of its own it does nothing.
func (p *party) keepAlive(lease driver.Lease) (stop func()) {
	valid := lease.Grant().Until
	if valid.IsZero() {
		return func() {}
	}
	c := begin(p.e, "a renewal", func(ctx context.Context) (struct{}, error) {
		for {
			select {
			case <-time.After(p.e.ttl / 4):
			case <-ctx.Done():
				return struct{}{}, nil
			}
			until, err := driver.Renew(p.e.ctx, p.Backend, lease)
			switch late := !time.Now().Before(valid); {
			case err == nil:
				valid = until
			case ctx.Err() == nil && (errors.Is(err, driver.ErrLost) || late):
				p.e.fail(errors.Join(errors.New("the holder has not released the name, yet its renewal failed"), err))
				return struct{}{}, err
			}
		}
	})
	return func() { c.cancel(); <-c.over }
}

// waiter is the party's Waiter; a case that needs one is not run without.
func (p *party) waiter() driver.Waiter { return optional[driver.Waiter](p) }

// waits begins to Wait for name.
func (p *party) waits(name string) *call[driver.Lease] {
	waiter, req := p.waiter(), p.queueing(name)
	return begin(p.e, "Wait", func(ctx context.Context) (driver.Lease, error) {
		for {
			lease, err := p.e.sound(waiter.Wait(ctx, req))
			if !errors.Is(err, driver.ErrHeld) {
				return lease, err
			}
			select { // it cannot wait just now: as the client does
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	})
}

// stillHolds checks that lease, of p, is held by it alone, and releases it. after is what happened before.
func (p *party) stillHolds(name string, lease driver.Lease, after string) {
	stop := p.keepAlive(lease) // to connect may take longer than the TTL
	p.e.party().finds(name, after+", but the next holder has not released the name")
	stop()
	p.e.check(p.renewsIfItMust(lease), "%s, and the next holder's renewal failed", after)
	p.e.check(p.releases(lease), "%s, and the next holder's release failed", after)
}

// afterExpiry claims name once lease, which is not renewed, has expired; not before its validity has ended.
func (p *party) afterExpiry(lease driver.Lease, until time.Time, name string) driver.Lease {
	p.e.needsTTL()
	next := p.takes(name, p.e.takeover(), "a claim that is not renewed ends with its TTL")
	early := time.Until(until)
	p.e.require(early <= 0, "P3a silence: the name was granted again %v before the first holder's validity ended", early)
	p.e.rises(lease.Grant().Token, next.Grant().Token)
	return next
}

// rises checks that token comes after before, where there are tokens, and returns it.
func (e *Env) rises(before, token uint64) uint64 {
	if e.caps.Token != driver.TokenNone && token <= before {
		e.failf("P2 fencing: token %d was given after token %d", token, before)
	}
	return token
}
