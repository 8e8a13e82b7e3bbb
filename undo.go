package lockport

import (
	"context"
	"log/slog"
	"time"

	"github.com/lockport/lockport/driver"
)

// maxUndoers bounds the goroutines that undo claims, and maxUndoPause how often each claim is tried while its server is away.
const (
	maxUndoers   = 8
	maxUndoPause = time.Second
)

// undoing is the list of claims that may still be held at the server although nobody wants them: their outcome is unknown, their
// release failed, or they were lost. Each is tried until it is certain that it is gone. Guarded by the client's mutex.
type undoing struct {
	fresh   []undo // not tried yet; first in, first out, and before those that failed: their server may be well
	failed  []undo // tried, and to be tried again; first in, first out
	undoers int
	left    int // in the lists, under way, and those that a renewal keeps waiting
}

// undo is one claim to be undone.
type undo struct {
	req   driver.Request
	lease driver.Lease // nil: not known
	due   time.Duration
	pause time.Duration
}

// undoLater undoes req in the background. The mutex is held.
func (c *Client) undoLater(req driver.Request, lease driver.Lease) {
	c.undo.fresh = append(c.undo.fresh, undo{req: req, lease: lease})
	c.undo.left++
	if c.undo.undoers < maxUndoers {
		c.undo.undoers++
		c.inBackground(c.undoAll)
	}
}

// undoAll undoes claims until there is none left to begin with.
func (c *Client) undoAll() {
	for {
		c.mu.Lock()
		list := &c.undo.fresh
		if len(*list) == 0 {
			list = &c.undo.failed
		}
		if len(*list) == 0 || c.ctx.Err() != nil {
			c.undo.undoers--
			c.unlock()
			return
		}
		u := (*list)[0]
		*list = (*list)[1:]
		wait := u.due - c.now()
		c.unlock()

		if wait > 0 {
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-c.ctx.Done():
			}
			timer.Stop()
		}
		ctx, cancel := context.WithTimeout(c.ctx, maxAttempt)
		err := abandon(ctx, c.backend, u.req, u.lease)
		cancel()
		if err != nil && u.pause == 0 {
			c.logger().LogAttrs(c.ctx, slog.LevelWarn, "lockport: a lock could not be given back, trying on",
				slog.String("backend", c.caps.Backend), slog.String("name", u.req.Name), slog.Any("error", err))
		}

		c.mu.Lock()
		if err == nil {
			c.undo.left--
			c.checkIdle()
		} else {
			u.pause = min(max(2*u.pause, minPause), maxUndoPause)
			u.due = c.now() + jitter(u.pause)
			c.undo.failed = append(c.undo.failed, u)
		}
		c.unlock()
	}
}

// abandon makes one attempt at ending a claim for certain: by its lease, which frees what the driver keeps for it, if there is
// one, and otherwise by its owner.
func abandon(ctx context.Context, b driver.Backend, req driver.Request, lease driver.Lease) error {
	if lease != nil {
		half, cancel := context.WithTimeout(ctx, maxAttempt/2) // if it hangs, Abandon has time of its own
		err := lease.Release(half)
		cancel()
		if err == nil || classOfRelease(err) == ErrLost {
			return nil
		}
	}
	return b.Abandon(ctx, req)
}
