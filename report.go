package lockport

import (
	"context"
	"log/slog"
	"time"

	"github.com/lockport/lockport/internal/clock"
)

// reportAcquiring tells the hooks that an acquisition begins, and returns its context.
func (c *Client) reportAcquiring(ctx context.Context, name string) context.Context {
	for _, h := range c.cfg.hooks {
		if h.AcquireStart != nil {
			ctx = h.AcquireStart(ctx, AcquireEvent{Backend: c.caps.Backend, Name: name})
		}
	}
	return ctx
}

// reportAcquired tells the hooks how the acquisition that began at start ended.
func (c *Client) reportAcquired(ctx context.Context, name string, start time.Time, l *Lock, err error) {
	e := AcquireEvent{Backend: c.caps.Backend, Name: name, Wait: clock.Now().Sub(start), Err: err}
	if l != nil {
		e.Token, e.HandedOff = l.token, l != &l.claim.first
	}
	for _, h := range c.cfg.hooks {
		if h.AcquireDone != nil {
			h.AcquireDone(ctx, e)
		}
	}
}

// observe keeps the context of w, which acquires l, for the hooks. The mutex is held.
func (l *Lock) observe(w *waiter) {
	if len(l.claim.client.cfg.hooks) > 0 {
		l.ctx = w.ctx
	}
}

// event describes the end of l, at now.
func (l *Lock) event(now time.Duration, err error) HoldEvent {
	return HoldEvent{Context: l.ctx, Backend: l.claim.client.caps.Backend, Name: l.Name(), Held: now - l.acquired, Token: l.token, Err: err}
}

// reportReleased tells the hooks that a hold has ended without a loss.
func (c *Client) reportReleased(e HoldEvent) {
	for _, h := range c.cfg.hooks {
		if h.Released != nil {
			h.Released(e)
		}
	}
}

// reportEnded is reportReleased in the background. The mutex is held.
func (l *Lock) reportEnded() {
	c := l.claim.client
	if e := l.event(c.now(), nil); len(c.cfg.hooks) > 0 {
		c.inBackground(func() { c.reportReleased(e) })
	}
}

// reportLost tells the logger and the hooks that l was lost. The mutex is held.
func (l *Lock) reportLost() {
	c := l.claim.client
	e := l.event(c.now(), l.ended.Load().err)
	c.inBackground(func() {
		c.logger().LogAttrs(c.ctx, slog.LevelWarn, "lockport: lock lost", slog.String("backend", e.Backend), slog.String("name", e.Name),
			slog.Duration("held", e.Held.Round(time.Millisecond)), slog.Any("error", e.Err))
		for _, h := range c.cfg.hooks {
			if h.Lost != nil {
				h.Lost(e)
			}
		}
	})
}
