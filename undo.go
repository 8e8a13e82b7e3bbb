package lockport

import (
	"context"
	"log/slog"
	"time"
)

// maxUndoers bounds the goroutines that undo claims.
const maxUndoers = 8

// undo is a claim that nobody wants and that the server may still hold or queue: its outcome is unknown, its release failed, it was lost, or its
// waiters have left. The client retries until the claim is certainly gone.
type undo struct {
	claim *claim
	due   time.Duration
	pause time.Duration // before the last attempt; 0: none was made yet
}

// undoLater undoes the claim in the background. The mutex is held.
func (cl *claim) undoLater() {
	c := cl.client
	c.unsettled++
	c.undos = append(c.undos, undo{claim: cl})
	if c.undoers < maxUndoers {
		c.undoers++
		c.inBackground(c.undoAll)
	}
}

// undoAll undoes claims until none is left to begin with.
func (c *Client) undoAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.undos) > 0 && c.ctx.Err() == nil {
		u := c.undos[0]
		c.undos = c.undos[1:]
		wait := u.due - c.now()
		c.mu.Unlock()

		sleep(c.ctx, wait, nil)
		err := u.claim.abandon(c.ctx)
		if err != nil && u.pause == 0 {
			c.logger().LogAttrs(c.ctx, slog.LevelWarn, "lockport: a lock could not be released, retrying",
				slog.String("backend", c.caps.Backend), slog.String("name", u.claim.req.Name), slog.Any("error", err))
		}

		c.mu.Lock()
		if err == nil {
			c.settled()
			continue
		}
		u.pause = nextPause(u.pause)
		u.due = c.now() + jitter(u.pause)
		c.undos = append(c.undos, u)
	}
	c.undoers--
}

// abandon makes one attempt to end the claim for certain. If there is a lease, it releases that first, which frees what the driver keeps for it.
func (cl *claim) abandon(ctx context.Context) error {
	first, cancel := context.WithTimeout(ctx, lostAfter)
	defer cancel()
	cl.client.mu.Lock()
	lease := cl.joinRenewal(first)
	cl.client.mu.Unlock()
	if lease != nil {
		if err := lease.Release(first); err == nil || classOf(err) == ErrLost {
			return nil
		}
	}
	ctx, cancel = context.WithTimeout(ctx, lostAfter)
	defer cancel()
	return cl.client.backend.Abandon(ctx, cl.req)
}
