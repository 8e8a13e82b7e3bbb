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

// Wait implements driver.Waiter. The claim keeps its place in the queue across lost connections, for as long as the session lives.
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
			default: // the servers are away, and the session may live
				pause(ctx, ridePause)
				_ = b.ready(ctx)
			}
		}
	})
}

// nodeAhead returns, once, the node behind which the claim stands.
func (c *claim) nodeAhead() string {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	path := c.ahead
	c.ahead = ""
	return path
}

// ridePause is the pause between two looks while the servers are away.
const ridePause = 20 * time.Millisecond

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// sleep waits until there is a reason to list the lock again: something has happened to the node ahead, or a look is due. Meanwhile it finds out
// what a grant needs to know of the claim's own node.
func (c *claim) sleep(ctx context.Context, path string, ahead *watched) error {
	identified := make(chan error, 1)
	go func() { identified <- c.identify() }() // in the same round trip
	var err error
	free := false
	if ahead.path != path || ahead.events == nil { // a watch cannot be taken back, so there is one
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

// watched is a node that is watched: the channel gets the next event.
type watched struct {
	path   string
	events <-chan zk.Event
}

// watchSiblings asks for the next change of the nodes beside the claim's own. free: nothing is in its way any more, or its own is gone.
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

// watch asks for the next event of the node at path. It is not left on a node that is not there, which is zk.ErrNoNode: nobody would ever remove it.
func (b *Backend) watch(path string) (watched, error) {
	return call(b, false, "read", path, func(c *zk.Conn) (watched, error) {
		_, _, events, err := c.GetW(path)
		if errors.Is(err, zk.ErrNoAuth) { // a foreign node; that it is there everybody may know
			_, _, events, err = c.ExistsW(path)
		}
		return watched{path, events}, err
	})
}
