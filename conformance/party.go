package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport/driver"
)

// Time limits. The suite asserts no speed. These limits are far above what a correct backend needs, even on a busy machine,
// and far below what a broken one takes.
const (
	// soon limits immediate consequences: a wake-up, a callback, the end of a wait.
	soon = 2 * time.Second
	// endTime limits how long after the end of its context a call may return. The promise is 100 ms in 99 of 100 calls.
	endTime = time.Second
	// callTime limits one call to a healthy server.
	callTime = 5 * time.Second
)

// takeover limits how long a name stays taken after its holder fell silent: the TTL, and delays of the server.
func (e *Env) takeover() time.Duration { return e.ttl + e.ttl/4 + 1500*time.Millisecond }

// party is a backend as one client uses it. It checks the form of what claims return, and notes whether one was refused.
type party struct {
	driver.Backend
	e       *Env
	id      string       // what OwnerClient returns for its claims
	mode    mode         // of its claims
	close   func() error // once
	closed  *atomic.Bool
	refused *atomic.Bool // a claim returned ErrHeld
}

// mode is how a claim holds a name. The zero value excludes all others.
type mode struct {
	shared  bool
	permits int
}

// rival is the mode that a claim in mode m excludes, and nothing else does: a writer's for a reader, or the same.
func (m mode) rival() mode { return mode{permits: m.permits} }

// in is p with claims in a mode.
func (p *party) in(m mode) *party {
	same := *p
	same.mode = m
	return &same
}

// open opens a backend at target, and closes it when the case has ended.
func (e *Env) open(target string) *party {
	b, err := e.cfg.Open(e.ctx, target)
	e.check(err, "Config.Open")
	id := fmt.Sprintf("suite/%d/conformance/%s", os.Getpid(), randomHex(4))
	p := &party{Backend: b, e: e, id: id, close: sync.OnceValue(b.Close), closed: new(atomic.Bool), refused: new(atomic.Bool)}
	e.after(func() { _ = p.Close() })
	return p
}

// party opens the backend under test.
func (e *Env) party() *party { return e.open(e.cfg.Target) }

// observer opens a backend that no fault touches.
func (e *Env) observer() *party { return e.open(e.cfg.Direct) }

// two opens the backend under test twice, and returns a new name.
func (e *Env) two() (a, b *party, name string) { return e.party(), e.party(), e.name() }

// held is two, and a holds the name.
func (e *Env) held() (a, b *party, name string, lease driver.Lease) {
	a, b, name = e.two()
	return a, b, name, a.claim(name)
}

func (p *party) Unwrap() driver.Backend { return p.Backend }

func (p *party) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	p.e.claims(req.TTL)
	lease, err := p.e.sound(p.Backend.TryAcquire(ctx, req))
	if errors.Is(err, driver.ErrHeld) {
		p.refused.Store(true)
	}
	return lease, err
}

func (p *party) Close() error {
	p.closed.Store(true)
	return p.close()
}

// connected makes sure that p is connected, by a claim on another name.
func (p *party) connected() *party {
	p.wantFree(p.e.name(), "the name is new")
	return p
}

// request makes a request with a new owner.
func (p *party) request(name string) driver.Request {
	return driver.Request{Name: name, Owner: randomHex(16) + ":" + p.id, TTL: p.e.ttl, Shared: p.mode.shared, Permits: p.mode.permits}
}

// patientRequest makes a request for a claim that outlasts the waits of a case, unless the TTL is fixed.
func (p *party) patientRequest(name string) driver.Request {
	req := p.request(name)
	req.TTL = p.e.longTTL()
	return req
}

// queueing makes a request that joins the server's queue, if there is one.
func (p *party) queueing(name string) driver.Request {
	req := p.request(name)
	req.Queue = p.e.caps.Queue
	return req
}

// optional returns an optional interface of p's backend, and ends the case as not run if it lacks it.
func optional[T any](p *party) T {
	found, ok := driver.As[T](p.Backend)
	p.e.applies(ok, "the backend does not implement %v", reflect.TypeFor[T]())
	return found
}

// timed makes one call to a healthy server, and checks the form of its error.
func (e *Env) timed(call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(e.ctx, callTime)
	defer cancel()
	err := call(ctx)
	e.oneClass(err)
	return err
}

// try makes a claim, and abandons it when the case has ended: nobody has to wait for its TTL. Any goroutine may call it.
func (p *party) try(req driver.Request) (driver.Lease, error) { return p.tryIn(p.e.ctx, req) }

// tryIn is try with a context.
func (p *party) tryIn(ctx context.Context, req driver.Request) (driver.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	lease, err := p.TryAcquire(ctx, req)
	if err == nil {
		p.abandonAtEnd(req)
	}
	return lease, err
}

// tryAgain is try for a claim that is repeated. One of unknown outcome is abandoned, and an abandoned owner is never used again: req gets another.
func (p *party) tryAgain(req *driver.Request) (driver.Lease, error) {
	lease, err := p.try(*req)
	if class(err) == driver.ErrUnknown {
		p.abandon(*req)
		req.Owner = p.request(req.Name).Owner
	}
	return lease, err
}

// abandonAtEnd abandons a claim when the case has ended, unless the case has closed its backend.
func (p *party) abandonAtEnd(req driver.Request) {
	p.e.undo(func(ctx context.Context) {
		if !p.closed.Load() {
			_ = p.Abandon(ctx, req)
		}
	})
}

// claim makes a claim that must be granted, because nobody has the name. Methods whose names end in As take a request instead.
func (p *party) claim(name string) driver.Lease { return p.claimAs(p.request(name)) }

func (p *party) claimAs(req driver.Request) driver.Lease {
	lease, err := p.try(req)
	p.e.check(err, "nobody has the name, yet a claim was not granted")
	return lease
}

// wantHeld makes a claim that must return ErrHeld; why is the reason.
func (p *party) wantHeld(name, why string) { p.wantHeldAs(p.request(name), why) }

func (p *party) wantHeldAs(req driver.Request, why string) {
	lease, err := p.try(req)
	p.e.refused(lease, err, why)
}

// refused checks that a claim returned ErrHeld; why is the reason.
func (e *Env) refused(lease driver.Lease, err error, why string) {
	if err == nil {
		e.failf("%s, yet %w (token %d)", why, errGranted, lease.Grant().Token)
	}
	e.is(err, why+", so another claim must return ErrHeld; it returned", driver.ErrHeld)
}

// wantFree makes a claim that must be granted at once; why is the reason. It releases the claim and returns its token.
func (p *party) wantFree(name, why string) uint64 { return p.wantFreeIn(name, 0, why) }

// wantFreeIn is wantFree for a claim that must be granted within d.
func (p *party) wantFreeIn(name string, d time.Duration, why string) uint64 {
	lease := p.takeAs(p.request(name), d, why)
	p.release(lease)
	return lease.Grant().Token
}

// take polls until a claim is granted that outlasts the waits of a case, and ends the case after d.
func (p *party) take(name string, d time.Duration, why string) driver.Lease {
	return p.takeAs(p.patientRequest(name), d, why)
}

func (p *party) takeAs(req driver.Request, d time.Duration, why string) driver.Lease {
	var lease driver.Lease
	var err error
	granted := poll(p.e.ctx, d, func() bool {
		lease, err = p.tryAgain(&req)
		return err == nil
	})
	when := "at once"
	if d > 0 {
		when = "within " + d.String()
	}
	p.e.require(granted, "%s, so a claim must be granted %s; the last one returned: %w", why, when, err)
	return lease
}

// release releases leases that must be held.
func (p *party) release(leases ...driver.Lease) {
	for _, lease := range leases {
		p.e.check(p.tryRelease(lease), "the release of a held claim failed")
	}
}

// tryRelease releases a lease and returns the driver's error.
func (p *party) tryRelease(lease driver.Lease) error { return p.e.timed(lease.Release) }

// renew renews a lease and returns the driver's result.
func (p *party) renew(lease driver.Lease) (until time.Time, err error) {
	err = p.e.timed(func(ctx context.Context) (err error) {
		until, err = driver.Renew(ctx, p.Backend, lease)
		return err
	})
	return until, err
}

// renewAll renews leases together if the backend is a BatchRenewer, or else one by one.
func (p *party) renewAll(leases []driver.Lease) []driver.Renewal {
	results := make([]driver.Renewal, len(leases))
	if batch, ok := driver.As[driver.BatchRenewer](p.Backend); ok {
		batch.RenewBatch(p.e.ctx, leases, results)
		return results
	}
	for i, lease := range leases {
		results[i].Until, results[i].Err = p.renew(lease)
	}
	return results
}

// renewIfNeeded renews lease if its claim expires.
func (p *party) renewIfNeeded(lease driver.Lease) error {
	if lease.Grant().Until.IsZero() {
		return nil
	}
	return errOf(p.renew(lease))
}

// abandon retries Abandon as the client does, and ends the case if it never succeeds.
func (p *party) abandon(req driver.Request) {
	req.Lost, req.Contended, req.Queue = nil, nil, false // name, owner and mode must suffice
	var err error
	abandoned := poll(p.e.ctx, p.e.ttl+callTime, func() bool {
		err = p.e.timed(func(ctx context.Context) error { return p.Abandon(ctx, req) })
		return err == nil
	})
	p.e.require(abandoned, "Abandon of a claim must return nil on a healthy server; the last error was: %w", err)
}

// settle does what the client does with an unwanted claim: it undoes what may be held, and leaves alone what had no effect.
func (p *party) settle(req driver.Request, lease driver.Lease, err error) {
	switch {
	case err == nil:
		err := p.tryRelease(lease)
		ended := p.e.faulty && errors.Is(err, driver.ErrLost) && (p.e.caps.Ends != driver.EndsTTL || p.e.caps.FixedTTL > 0)
		if ended || err != nil && class(err) == driver.ErrUnknown { // its connection was cut after the grant
			p.abandon(req)
			return
		}
		p.e.check(err, "the release of a held claim")
	case errors.Is(err, driver.ErrHeld):
		p.e.failf("nobody has the name, yet a claim returned: %w", err)
	case !certain(err):
		p.abandon(req)
	}
}

// keepAlive renews lease, which must be held, until stop is called. Like the client, it retries a renewal whose outcome is
// unknown until the validity ends. It does nothing for a claim that does not expire.
func (p *party) keepAlive(lease driver.Lease) (stop func()) {
	valid := lease.Grant().Until
	if valid.IsZero() {
		return func() {}
	}
	c := p.e.start("a renewal", func(ctx context.Context) error {
		for {
			select {
			case <-time.After(p.e.ttl / 4):
			case <-ctx.Done():
				return nil
			}
			until, err := driver.Renew(p.e.ctx, p.Backend, lease)
			switch late := !time.Now().Before(valid); {
			case err == nil:
				valid = until
			case ctx.Err() == nil && (errors.Is(err, driver.ErrLost) || late):
				p.e.fail(errors.Join(errors.New("the holder has not released the name, yet its renewal failed"), err))
				return err
			}
		}
	})
	return c.stop
}

// keep is keepAlive, until release is called, which releases lease.
func (p *party) keep(lease driver.Lease) (release func()) {
	stop := p.keepAlive(lease)
	return func() { stop(); p.release(lease) }
}

// beginWait starts to Wait for name. Like the client, it tries again when the driver cannot wait now.
func (p *party) beginWait(name string) *call[driver.Lease] {
	waiter, req := optional[driver.Waiter](p), p.queueing(name)
	return begin(p.e, "Wait", func(ctx context.Context) (driver.Lease, error) {
		for {
			lease, err := p.e.sound(waiter.Wait(ctx, req))
			if !errors.Is(err, driver.ErrHeld) {
				return lease, err
			}
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	})
}

// stillHolds checks that only p holds lease after late, and releases it. after says what happened before.
func (p *party) stillHolds(name string, lease driver.Lease, after string, late ...func()) {
	stop := p.keepAlive(lease) // connecting may take longer than the TTL
	for _, f := range late {
		f()
	}
	p.e.party().wantHeld(name, after+", and the next holder has not released the name")
	stop()
	p.e.check(p.renewIfNeeded(lease), "%s, and then the next holder's renewal failed", after)
	p.e.check(p.tryRelease(lease), "%s, and then the next holder's release failed", after)
}

// afterExpiry claims name once lease, which is not renewed, has expired. It checks that this was not before until.
func (p *party) afterExpiry(lease driver.Lease, until time.Time, name string) driver.Lease {
	p.e.needsTTL()
	next := p.take(name, p.e.takeover(), "a claim that is not renewed ends with its TTL")
	early := time.Until(until)
	p.e.require(early <= 0, "P3a silence: the name was granted again %v before the first holder's validity ended", early)
	p.e.rises(lease.Grant().Token, next.Grant().Token)
	return next
}

// rises checks that token is greater than before, if there are tokens, and returns it.
func (e *Env) rises(before, token uint64) uint64 {
	e.require(e.caps.Token == driver.TokenNone || token > before, "P2 fencing: token %d was given after token %d", token, before)
	return token
}
