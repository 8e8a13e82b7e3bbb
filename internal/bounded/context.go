package bounded

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lockport/lockport/internal/clock"
)

// Context is the context.Context of one request. It ends at its deadline, by Cancel, or, unless it was made by Beside, with its parent; Err says so at
// once, also while nobody has asked for Done. Who made it must call Cancel, which frees what it uses. Safe for concurrent use. Contexts of the
// package context that derive from it cost no goroutine.
type Context struct {
	parent    context.Context
	timers    *Timers
	deadline  time.Time // zero: none
	inherited bool      // it is parent's
	beside    bool      // only parent's values count

	mu    sync.Mutex
	err   error         // why it has ended; nil: it has not
	own   bool          // it has ended, but not with its parent
	done  chan struct{} // nil: nobody has asked for it
	alarm *alarm        // ends it at its deadline; nil: not needed yet, or any more
	leave func() bool   // ends the watch over parent; nil: the same
	after []*func()     // to be called when it ends
}

var _ context.Context = (*Context)(nil)

// ended is the Done of contexts that had ended before they were asked.
var ended = make(chan struct{})

func init() { close(ended) }

// Deadline implements context.Context.
func (c *Context) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

// Err implements context.Context.
func (c *Context) Err() error {
	c.look()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Done implements context.Context. The first call costs a timer: who need not be told asks Err.
func (c *Context) Done() <-chan struct{} {
	c.look()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.done != nil:
	case c.err != nil:
		c.done = ended
	default:
		c.done = make(chan struct{})
		followed := !c.beside && c.parent.Done() != nil
		if followed {
			c.leave = context.AfterFunc(c.parent, c.look)
		}
		if !c.deadline.IsZero() && !(followed && c.inherited) {
			c.alarm = c.timers.set(c)
		}
	}
	return c.done
}

// Value implements context.Context.
func (c *Context) Value(key any) any {
	parent := c.parent
	if c.beside || c.endedAlone() { // parent's end is not ours: context.Cause, which asks here, must not find it
		parent = context.WithoutCancel(parent)
	}
	return parent.Value(key)
}

// String names c in messages, without a look at what the mutex guards.
func (c *Context) String() string { return "bounded.Context" }

func (c *Context) endedAlone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.own
}

// AfterFunc has f called in a goroutine of its own when c ends, unless stop is called before, which reports whether it prevented that. It is what
// context.AfterFunc, and contexts that derive from c, use.
func (c *Context) AfterFunc(f func()) (stop func() bool) {
	c.Done() // somebody waits for the end
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		go f()
		return func() bool { return false }
	}
	c.after = append(c.after, &f)
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		i := slices.Index(c.after, &f)
		if i >= 0 {
			c.after = slices.Delete(c.after, i, i+1)
		}
		return i >= 0
	}
}

// Cancel ends c, if it has not ended, and frees what it uses. It can be called again, and from any goroutine.
func (c *Context) Cancel() { c.end(context.Canceled, true) }

// look ends c if parent or the clock says so.
func (c *Context) look() {
	if !c.beside {
		if err := c.parent.Err(); err != nil {
			c.end(err, false)
			return
		}
	}
	if !c.deadline.IsZero() && !clock.Now().Before(c.deadline) {
		c.end(context.DeadlineExceeded, !c.inherited)
	}
}

// end ends c with err. Only the first call does something.
func (c *Context) end(err error, own bool) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err, c.own = err, own
	if c.done != nil {
		close(c.done)
	}
	alarm, leave, after := c.alarm, c.leave, c.after
	c.alarm, c.leave, c.after = nil, nil, nil
	c.mu.Unlock()
	if alarm != nil {
		c.timers.clear(alarm)
	}
	if leave != nil {
		leave()
	}
	for _, f := range after {
		go (*f)()
	}
}
