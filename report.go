package lockport

import (
	"log/slog"
	"time"
)

// reporting is what is to be said and called outside the mutex: at once by who unlocks it, or, where that is a goroutine of a driver, which
// must not block, by a goroutine that exists while there is something to say. Guarded by the client's mutex.
type reporting struct {
	now     []func()
	later   []func()
	running bool
}

// afterwards runs f when the mutex is unlocked, by unlock. f must be quick. The mutex is held.
func (c *Client) afterwards(f func()) { c.reports.now = append(c.reports.now, f) }

// unlock unlocks the mutex and runs what was put off until then.
func (c *Client) unlock() {
	calls := c.reports.now
	c.reports.now = nil
	c.mu.Unlock()
	for _, f := range calls {
		f()
	}
}

// reportLost tells the logger and the hook that l was lost. The mutex is held.
func (c *Client) reportLost(l *Lock) {
	e := HoldEvent{Name: l.Name(), Held: c.now() - l.acquired, Token: l.token, Err: l.ended.Load().err}
	c.reports.later = append(c.reports.later, func() {
		c.logger().LogAttrs(c.ctx, slog.LevelWarn, "lockport: lock lost", slog.String("backend", c.caps.Backend), slog.String("name", e.Name),
			slog.Duration("held", e.Held.Round(time.Millisecond)), slog.Any("error", e.Err))
		if c.cfg.hooks.Lost != nil {
			c.cfg.hooks.Lost(e)
		}
	})
	if !c.reports.running {
		c.reports.running = true
		c.inBackground(c.report)
	}
}

// report says what there is to say.
func (c *Client) report() {
	for {
		c.mu.Lock()
		calls := c.reports.later
		c.reports.later = nil
		c.reports.running = len(calls) > 0
		c.mu.Unlock()
		if len(calls) == 0 {
			return
		}
		for _, f := range calls {
			f()
		}
	}
}
