package lockport

import (
	"log/slog"
	"time"
)

// reporting is what is to be said and called outside the mutex, by a goroutine that exists while there is something to say: the client's own and those of
// drivers must not wait for loggers and hooks. Guarded by the client's mutex.
type reporting struct {
	calls   []func()
	running bool
}

// report runs f outside the mutex, which is held.
func (c *Client) report(f func()) {
	c.reports.calls = append(c.reports.calls, f)
	if !c.reports.running {
		c.reports.running = true
		c.inBackground(c.reportAll)
	}
}

// reportAll says what there is to say.
func (c *Client) reportAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.reports.calls) > 0 {
		calls := c.reports.calls
		c.reports.calls = nil
		c.mu.Unlock()
		for _, f := range calls {
			f()
		}
		c.mu.Lock()
	}
	c.reports.running = false
}

// observe keeps the context of w, which acquires l, if a hook wants it at the end. The mutex is held.
func (l *Lock) observe(w *waiter) {
	if hooks := &l.claim.client.cfg.hooks; hooks.Released != nil || hooks.Lost != nil {
		l.ctx = w.ctx
	}
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
		c.report(func() { released(e) })
	}
}

// reportLost tells the logger and the hook that l was lost. The mutex is held.
func (l *Lock) reportLost() {
	c := l.claim.client
	e := l.event(c.now(), l.ended.Load().err)
	c.report(func() {
		c.logger().LogAttrs(c.ctx, slog.LevelWarn, "lockport: lock lost", slog.String("backend", e.Backend), slog.String("name", e.Name),
			slog.Duration("held", e.Held.Round(time.Millisecond)), slog.Any("error", e.Err))
		if c.cfg.hooks.Lost != nil {
			c.cfg.hooks.Lost(e)
		}
	})
}
