package lockport

import (
	"context"
	"log/slog"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/clock"
)

// A claim is renewed between a quarter and a third of its TTL after it was last confirmed. The instant is on a grid with steps of a twelfth of the
// TTL, so the renewals of many claims coincide and go to the server together.
const (
	renewalPeriod = 3  // of the TTL
	renewalGrid   = 12 // of the TTL
)

// renewalTimeout bounds one attempt, so that there is time for others before the deadline. A release waits for the attempt.
func renewalTimeout(ttl time.Duration) time.Duration {
	return min(max(ttl/4, 10*time.Millisecond), maxRenewal)
}

// maxRenewal leaves a waiting release most of its time. It is below lostAfter: abandon waits that long for a renewal, and may then call Abandon
// beside it only because the renewal's context has ended.
const maxRenewal = 2 * time.Second

// maxRenewers bounds the goroutines that renew, where the backend renews one claim at a time.
const maxRenewers = 32

// renewalAfter returns when to renew a claim whose validity began no later than now, and ends, less the margin, at deadline.
func renewalAfter(deadline, ttl, now time.Duration) time.Duration {
	grid := max(ttl/renewalGrid, 1)
	began := min(now, deadline+margin(ttl)-ttl)
	return (began + ttl/renewalPeriod) / grid * grid
}

// renewalRetry is the pause after a failed renewal.
func renewalRetry(ttl time.Duration) time.Duration {
	return min(max(ttl/renewalGrid, 5*time.Millisecond), time.Second)
}

// startRenewals renews claims, whose renewal is set, together if they have one TTL. The mutex is held.
func (c *Client) startRenewals(claims []*claim) {
	batches := make(map[time.Duration][]*claim)
	for _, cl := range claims {
		batches[cl.req.TTL] = append(batches[cl.req.TTL], cl)
	}
	for ttl, batch := range batches {
		c.inBackground(func() { c.renew(ttl, batch) })
	}
}

// renew renews claims, which have the same TTL, and applies the results.
func (c *Client) renew(ttl time.Duration, claims []*claim) {
	_, suspended := clock.Present()
	sent := c.now()
	leases, results := make([]driver.Lease, len(claims)), make([]driver.Renewal, len(claims))
	left, last := make([]time.Duration, len(claims)), time.Duration(0) // until the deadlines
	for i, cl := range claims {
		leases[i], left[i] = cl.lease, time.Duration(cl.deadline.Load())-sent
		last = max(last, left[i])
	}
	ctx, cancel := context.WithTimeout(c.ctx, min(renewalTimeout(ttl), last))
	defer cancel()
	if c.batch != nil {
		c.batch.RenewBatch(ctx, leases, results)
	} else {
		inParallel(len(leases), maxRenewers, func(i int) {
			results[i].Until, results[i].Err = leases[i].(driver.Renewer).Renew(ctx)
		})
	}
	c.mu.Lock()
	now := c.now()
	failed, sample := 0, -1
	for i, cl := range claims {
		if results[i].Err == nil && results[i].Until.IsZero() {
			results[i].Err = driver.ErrUnknown // not renewed at all
		}
		if cl.apply(results[i], suspended, sent, now) {
			failed++
			sample = i
		}
	}
	c.mu.Unlock()
	if failed > 0 && c.ctx.Err() == nil {
		c.logger().LogAttrs(c.ctx, slog.LevelWarn, "lockport: renewal failed, trying again until the deadline", slog.Int("locks", failed),
			slog.String("backend", c.caps.Backend), slog.String("name", claims[sample].req.Name), slog.Any("error", results[sample].Err))
	}
	for _, h := range c.cfg.hooks {
		for i := 0; i < len(claims) && h.Renewed != nil; i++ {
			h.Renewed(RenewEvent{Backend: c.caps.Backend, Name: claims[i].req.Name, TTL: ttl, Latency: now - sent, Left: left[i], Err: results[i].Err})
		}
	}
}

// apply applies the result of a renewal. Before it was sent, the machine had been suspended for suspended. true: it failed and will be retried. The mutex is held.
func (cl *claim) apply(r driver.Renewal, suspended, sent, now time.Duration) (failed bool) {
	ttl := cl.req.TTL
	cl.renewalEnded()
	switch {
	case cl.state != held || cl.expire(now): // a late confirmation does not revive a claim
		return false
	case r.Err == nil:
		deadline := cl.client.deadline(r.Until, suspended, ttl)
		cl.deadline.Store(max(cl.deadline.Load(), int64(deadline)))
		cl.renewAt = renewalAfter(time.Duration(cl.deadline.Load()), ttl, sent)
		if cl.renewAt <= now {
			cl.renewAt = now + renewalRetry(ttl)
		}
	case classOf(r.Err) == ErrLost:
		cl.lose(r.Err)
		return false
	default:
		cl.renewAt = now + renewalRetry(ttl)
		failed = true
	}
	cl.schedule()
	return failed
}

// renewalEnded notes that the renewal under way has ended, and wakes its waiters. The mutex is held.
func (cl *claim) renewalEnded() {
	close(cl.renewal)
	cl.renewal = nil
}

// joinRenewal waits until no renewal of the claim is under way, or ctx ends. It returns the lease for the next call. nil: there is none, or the
// renewal outlasts its context, and only Abandon may run beside it. The mutex is held, except during the wait.
func (cl *claim) joinRenewal(ctx context.Context) driver.Lease {
	for cl.renewal != nil && ctx.Err() == nil {
		renewal := cl.renewal
		cl.client.mu.Unlock()
		select {
		case <-renewal:
		case <-ctx.Done():
		}
		cl.client.mu.Lock()
	}
	if cl.renewal != nil {
		return nil
	}
	return cl.lease
}
