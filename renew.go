package lockport

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/clock"
)

// A claim is renewed between a quarter and a third of its TTL after it was last confirmed, at an instant of a grid whose step is a
// twelfth of the TTL: so the renewals of many claims meet and go to the server together.
const (
	renewalPeriod = 3  // of the TTL
	renewalGrid   = 12 // of the TTL
)

// renewalTimeout bounds one attempt, so that there is time for others before the deadline.
// A release waits for it.
func renewalTimeout(ttl time.Duration) time.Duration {
	return min(max(ttl/4, 10*time.Millisecond), maxRenewal)
}

// maxRenewal leaves a release most of its time.
const maxRenewal = 2 * time.Second

// confirmed is when the validity that ends, with the margin, at deadline began: not after now.
func confirmed(deadline, ttl, now time.Duration) time.Duration {
	return min(now, deadline+margin(ttl)-ttl)
}

// maxRenewers bounds the goroutines that renew, where the backend renews one claim at a time.
const maxRenewers = 32

// renewalAfter is when a claim that was confirmed at the instant confirmed is to be renewed.
func renewalAfter(confirmed, ttl time.Duration) time.Duration {
	grid := max(ttl/renewalGrid, 1)
	return (confirmed + ttl/renewalPeriod) / grid * grid
}

// renewalRetry is the pause before a renewal that failed is tried again.
func renewalRetry(ttl time.Duration) time.Duration {
	return min(max(ttl/renewalGrid, 5*time.Millisecond), time.Second)
}

// renewals is a batch of claims of one TTL that are renewed together, and what becomes of them.
type renewals struct {
	client    *Client
	ttl       time.Duration
	claims    []*claim
	first     time.Duration // the earliest deadline
	sent      time.Duration
	suspended time.Duration
	results   []driver.Renewal
}

// startRenewals renews claims, whose renewing is set. The mutex is held.
func (c *Client) startRenewals(claims []*claim) {
	batches := make(map[time.Duration]*renewals)
	for _, cl := range claims {
		b := batches[cl.req.TTL]
		if b == nil {
			b = &renewals{client: c, ttl: cl.req.TTL, first: never}
			batches[cl.req.TTL] = b
		}
		b.claims = append(b.claims, cl)
		b.first = min(b.first, time.Duration(cl.deadline.Load()))
	}
	for _, b := range batches {
		c.inBackground(b.run)
	}
}

// run renews the batch and draws the conclusions.
func (b *renewals) run() {
	c := b.client
	b.suspended = clock.Suspended()
	b.sent = c.now()
	b.results = make([]driver.Renewal, len(b.claims))
	var left []time.Duration // the validity of each, for the hook
	if c.cfg.hooks.Renewed != nil {
		for _, cl := range b.claims {
			left = append(left, time.Duration(cl.deadline.Load())-b.sent)
		}
	}
	ctx, cancel := context.WithTimeout(c.ctx, min(renewalTimeout(b.ttl), b.first-b.sent))
	defer cancel()
	if c.batch != nil {
		leases := make([]driver.Lease, len(b.claims))
		for i, cl := range b.claims {
			leases[i] = cl.lease
		}
		c.batch.RenewBatch(ctx, leases, b.results)
	} else {
		b.renewEach(ctx)
	}

	c.mu.Lock()
	now := c.now()
	failed, sample := 0, -1
	for i, cl := range b.claims {
		if b.results[i].Err == nil && b.results[i].Until.IsZero() {
			b.results[i].Err = driver.ErrUnknown // not renewed at all
		}
		if b.apply(cl, b.results[i], now) {
			failed++
			sample = i
		}
	}
	c.mu.Unlock()
	if failed > 0 && c.ctx.Err() == nil {
		c.logger().LogAttrs(c.ctx, slog.LevelWarn, "lockport: renewal failed, trying again until the deadline", slog.Int("locks", failed),
			slog.String("backend", c.caps.Backend), slog.String("name", b.claims[sample].req.Name), slog.Any("error", b.results[sample].Err))
	}
	if c.cfg.hooks.Renewed != nil {
		for i, cl := range b.claims {
			c.cfg.hooks.Renewed(RenewEvent{Backend: c.caps.Backend, Name: cl.req.Name, TTL: b.ttl, Latency: now - b.sent, Left: left[i], Err: b.results[i].Err})
		}
	}
}

// renewEach renews one claim at a time on a few goroutines.
func (b *renewals) renewEach(ctx context.Context) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(len(b.claims), maxRenewers) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(b.claims); i = int(next.Add(1)) - 1 {
				b.results[i].Until, b.results[i].Err = b.claims[i].lease.(driver.Renewer).Renew(ctx)
			}
		})
	}
	workers.Wait()
}

// apply applies the result of a renewal to cl. true: it failed and will be tried again. The mutex is held.
func (b *renewals) apply(cl *claim, r driver.Renewal, now time.Duration) (failed bool) {
	cl.renewalEnded()
	switch {
	case cl.state != held || cl.expire(now): // a confirmation that comes after the end revives nothing
		return false
	case r.Err == nil:
		deadline := b.client.deadline(r.Until, b.suspended, b.ttl)
		cl.deadline.Store(max(cl.deadline.Load(), int64(deadline)))
		cl.renewAt = renewalAfter(confirmed(time.Duration(cl.deadline.Load()), b.ttl, b.sent), b.ttl)
		if cl.renewAt <= now {
			cl.renewAt = now + renewalRetry(b.ttl)
		}
	case classOfRelease(r.Err) == ErrLost:
		cl.lose(r.Err)
		return false
	default:
		cl.renewAt = now + renewalRetry(b.ttl)
		failed = true
	}
	cl.schedule()
	return failed
}

// renewalEnded lets those go on who wait for the renewal under way. The mutex is held.
func (cl *claim) renewalEnded() {
	cl.renewing = false
	if cl.undo { // it was lost meanwhile
		cl.undo = false
		cl.client.undo.left--
		cl.client.undoLater(undo{req: cl.req, lease: cl.lease})
	}
	if cl.renewed != nil {
		close(cl.renewed)
		cl.renewed = nil
	}
}

// joinRenewal waits until no renewal of the claim is under way, or ctx ends. The mutex is held, but not while it waits.
func (cl *claim) joinRenewal(ctx context.Context) {
	c := cl.client
	if !cl.renewing {
		return
	}
	if cl.renewed == nil {
		cl.renewed = make(chan struct{})
	}
	renewed := cl.renewed
	c.mu.Unlock()
	select {
	case <-renewed:
	case <-ctx.Done():
	}
	c.mu.Lock()
}
