package bounded

import (
	"context"
	"sync"
	"time"

	"github.com/lockport/lockport/internal/clock"
)

// Timers makes contexts and keeps the timers of those that have ended for others. The zero value is ready for use. Safe for concurrent use.
type Timers struct {
	idle sync.Pool // of *alarm
}

// Under returns a context that ends with parent, or at deadline. A zero deadline is none; parent's own counts if it is earlier.
func (t *Timers) Under(parent context.Context, deadline time.Time) *Context {
	c := &Context{parent: parent, timers: t, deadline: deadline}
	if d, ok := parent.Deadline(); ok && (deadline.IsZero() || d.Before(deadline)) {
		c.deadline, c.inherited = d, true
	}
	return c
}

// Beside returns a context that has the values of parent, and ends at deadline, whether parent ends or not.
func (t *Timers) Beside(parent context.Context, deadline time.Time) *Context {
	return &Context{parent: parent, timers: t, deadline: deadline, beside: true}
}

// alarm is a timer that ends a context.
type alarm struct {
	timer *time.Timer
	rings *Context
}

// set makes an alarm that ends c at its deadline.
func (t *Timers) set(c *Context) *alarm {
	left := c.deadline.Sub(clock.Now())
	if a, ok := t.idle.Get().(*alarm); ok {
		a.rings = c
		a.timer.Reset(left)
		return a
	}
	a := &alarm{rings: c}
	a.timer = time.AfterFunc(left, func() { a.rings.look() })
	return a
}

// clear stops a. One that rings this moment is left alone: it is still about to look at its context.
func (t *Timers) clear(a *alarm) {
	if a.timer.Stop() {
		a.rings = nil
		t.idle.Put(a)
	}
}
