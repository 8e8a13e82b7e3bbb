package lockport

import (
	"context"
	"log/slog"
	"time"

	"github.com/lockport/lockport/driver"
)

// maxUndoers bounds the goroutines that undo claims.
const maxUndoers = 8

// undoing is the list of claims that may still be held at the server although nobody wants them: their outcome is unknown, their
// release failed, or they were lost. Each is tried until it is certain that it is gone. Guarded by the client's mutex.
type undoing struct {
	list    []undo // first in, first out
	undoers int
	left    int // in the list, under way, and those that a renewal keeps waiting
}

// undo is one claim to be undone.
type undo struct {
	req   driver.Request
	lease driver.Lease // nil: not known
	heir  *claim       // the same claim, if its queue waits for its end; nil: nobody does
	due   time.Duration
	pause time.Duration // after which it was tried last; 0: it was not tried yet
}

// undoLater undoes a claim in the background. The mutex is held.
func (c *Client) undoLater(u undo) {
	c.undo.list = append(c.undo.list, u)
	c.undo.left++
	if c.undo.undoers < maxUndoers {
		c.undo.undoers++
		c.inBackground(c.undoAll)
	}
}

// undoAll undoes claims until there is none left to begin with.
func (c *Client) undoAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.undo.list) > 0 && c.ctx.Err() == nil {
		u := c.undo.list[0]
		c.undo.list = c.undo.list[1:]
		wait := u.due - c.now()
		c.mu.Unlock()

		sleep(c.ctx, wait, nil)
		ctx, cancel := context.WithTimeout(c.ctx, maxAttempt)
		err := abandon(ctx, c.backend, u.req, u.lease)
		cancel()
		if err != nil && u.pause == 0 {
			c.logger().LogAttrs(c.ctx, slog.LevelWarn, "lockport: a lock could not be given back, trying on",
				slog.String("backend", c.caps.Backend), slog.String("name", u.req.Name), slog.Any("error", err))
		}

		c.mu.Lock()
		u.tell(err)
		if err == nil {
			c.undo.left--
			c.checkIdle()
			continue
		}
		u.pause = min(max(2*u.pause, minPause), maxPause)
		u.due = c.now() + jitter(u.pause)
		c.undo.list = append(c.undo.list, u)
	}
	c.undo.undoers--
}

// tell tells those who wait for the end of the claim what became of an attempt at it. The mutex is held.
func (u *undo) tell(err error) {
	cl := u.heir
	switch {
	case cl == nil || cl.detached():
	case err == nil:
		cl.leave()
	default: // those who came meanwhile have not waited for anybody: to them it is an error at once
		cl.queue.answerAll(unavailable(err), func(w *waiter) bool { return !w.waited })
		if cl.queue.head == nil {
			cl.leave()
		}
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
