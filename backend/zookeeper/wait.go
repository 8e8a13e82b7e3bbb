package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockport/lockport/driver"
)

// Wait implements driver.Waiter. The claim keeps its place in the queue across lost connections, while the session lives.
func (b *Backend) Wait(ctx context.Context, req driver.Request) (driver.Lease, error) {
	return b.attempt(ctx, req, func(c *claim) (granted bool, err error) {
		var ahead watched
		for {
			if path := c.nodeAhead(); path != "" {
				err = c.sleep(ctx, path, &ahead)
			} else {
				granted, err = c.advance(ctx)
			}
			switch {
			case granted:
				return true, nil
			case err == nil:
			case ctx.Err() != nil, !oneOf(err, errNoAnswer, driver.ErrUnavailable):
				return false, err
			default: // the servers are unreachable; the session may live
				select {
				case <-time.After(retryPause):
				case <-ctx.Done():
				}
				_ = b.ready(ctx)
			}
		}
	})
}

// nodeAhead returns, once, the node that the claim waits for.
func (c *claim) nodeAhead() string {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	path := c.ahead
	c.ahead = ""
	return path
}

// retryPause is the pause between attempts while the servers are unreachable.
const retryPause = 20 * time.Millisecond

// sleep waits until the lock must be listed again: the node ahead changed, or a check is due. Meanwhile it finds out what a grant needs to
// know of the claim's own node.
func (c *claim) sleep(ctx context.Context, path string, ahead *watched) error {
	identified := make(chan error, 1)
	go func() { identified <- c.identify() }() // in the same round trip
	var err error
	free := false
	if ahead.path != path || ahead.events == nil { // a watch cannot be cancelled, so there is one
		if path == c.parent {
			*ahead, free, err = c.watchSiblings()
		} else {
			*ahead, err = c.b.watch(path)
		}
	}
	if err = cmp.Or(<-identified, err); errors.Is(err, zk.ErrNoNode) {
		return nil
	} else if err != nil || free {
		return err
	}
	safety := time.NewTimer(max(c.b.o.TTL, 5*time.Second))
	defer safety.Stop()
	select {
	case <-ahead.events:
		ahead.events = nil
	case <-safety.C:
	case <-ctx.Done():
		return unknown(ctx.Err())
	case <-c.b.done:
		return unavailable(errClosed)
	}
	return nil
}

// watched is a watched node: the channel receives its next event.
type watched struct {
	path   string
	events <-chan zk.Event
}

// watchSiblings watches for the next change among the claim's siblings. free: nothing is ahead any more, or its own node is gone.
func (c *claim) watchSiblings() (w watched, free bool, err error) {
	var children []string
	w, err = call(c.b, false, "list", c.parent, func(conn *zk.Conn) (watched, error) {
		found, _, events, err := conn.ChildrenW(c.parent)
		children = found
		return watched{c.parent, events}, err
	})
	if err != nil {
		return w, false, err
	}
	inOrder(children)
	at := slices.Index(children, base(c.node()))
	return w, at < c.req.Permits, nil
}

// watch watches for the next event of the node at path. A missing node is zk.ErrNoNode. GetW leaves no watch on it: nothing would ever remove it.
func (b *Backend) watch(path string) (watched, error) {
	return call(b, false, "read", path, func(c *zk.Conn) (watched, error) {
		_, _, events, err := c.GetW(path)
		if errors.Is(err, zk.ErrNoAuth) { // a foreign node; anybody may ask whether it exists
			var exists bool
			if exists, _, events, err = c.ExistsW(path); err == nil && !exists { // it was deleted in between
				err = zk.ErrNoNode
			}
		}
		return watched{path, events}, err
	})
}
