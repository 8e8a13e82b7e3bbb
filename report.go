package lockport

import (
	"context"
	"log/slog"
	"time"

	"github.com/lockport/lockport/internal/clock"
)

// observe keeps the context of w, which acquires l, if a hook wants it at the end. The mutex is held.
func (l *Lock) observe(w *waiter) {
	if hooks := &l.claim.client.cfg.hooks; hooks.Released != nil || hooks.Lost != nil {
		l.ctx = w.ctx
	}
}

// reportAcquired tells the hook how an acquisition ended that began at start.
func (c *Client) reportAcquired(ctx context.Context, name string, start time.Time, l *Lock, err error) {
	e := AcquireEvent{Backend: c.caps.Backend, Name: name, Wait: clock.Now().Sub(start), Err: err}
	if l != nil {
		e.Token, e.HandedOff = l.token, l.handedOff()
	}
	c.cfg.hooks.AcquireDone(ctx, e)
}

// event describes the end of l, at now.
func (l *Lock) event(now time.Duration, err error) HoldEvent {
	return HoldEvent{Context: l.ctx, Backend: l.claim.client.caps.Backend, Name: l.Name(), Held: now - l.acquired, Token: l.token, Err: err}
}

// reportEnded tells the hook that l has ended in another way than by Release, and was not lost. The mutex is held.
func (l *Lock) reportEnded() {
	c := l.claim.client
	if released := c.cfg.hooks.Released; released != nil {
		e := l.event(c.now(), nil)
		c.inBackground(func() { released(e) }) // the mutex must not wait for hooks
	}
}

// reportLost tells the logger and the hook that l was lost. The mutex is held.
func (l *Lock) reportLost() {
	c := l.claim.client
	e := l.event(c.now(), l.ended.Load().err)
	c.inBackground(func() {
		c.logger().LogAttrs(c.ctx, slog.LevelWarn, "lockport: lock lost", slog.String("backend", e.Backend), slog.String("name", e.Name),
			slog.Duration("held", e.Held.Round(time.Millisecond)), slog.Any("error", e.Err))
		if c.cfg.hooks.Lost != nil {
			c.cfg.hooks.Lost(e)
		}
	})
}
