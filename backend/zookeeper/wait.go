package zookeeper

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockport/lockport/driver"
)

// Wait implements driver.Waiter. The claim keeps its place in the queue across lost connections, for as long as the session lives.
func (b *Backend) Wait(ctx context.Context, req driver.Request) (driver.Lease, error) {
	return inTime(ctx, driver.ErrUnknown, func() (driver.Lease, error) { return b.wait(ctx, req) })
}

func (b *Backend) wait(ctx context.Context, req driver.Request) (driver.Lease, error) {
	c, err := b.enter(ctx, req)
	if err != nil {
		return nil, err
	}
	var ahead watched
	for {
		children, at, err := c.place(ctx)
		if err == nil && at == 0 {
			if err = c.win(ctx, len(children) > 1); err == nil {
				return c, nil
			}
		} else if err == nil {
			err = c.sleep(ctx, c.parent+"/"+children[at-1], &ahead)
		}
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, errGone) || !connectionLost(err) && !oneOf(err, driver.ErrUnavailable, zk.ErrNoServer) {
				return nil, c.failed(err)
			}
			pause(ctx, ridePause) // the servers are away, and the session may live
			_ = b.ready(ctx)
		}
	}
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

// sleep waits until there is a reason to look again: something has happened to the node ahead or to the claim's own, or a look is due.
func (c *claim) sleep(ctx context.Context, path string, ahead *watched) error {
	if ahead.path != path || ahead.events == nil { // a watch cannot be taken back, so there is one
		w, err := c.b.watch(path)
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		} else if err != nil {
			return err
		}
		*ahead = w
	}
	own, err := c.watchNode()
	if err != nil {
		return err
	}
	safety := time.NewTimer(max(c.b.o.TTL, 5*time.Second))
	defer safety.Stop()
	select {
	case <-ahead.events:
		ahead.events = nil
	case <-own:
		c.b.mu.Lock()
		c.watch = nil
		c.b.mu.Unlock()
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
	stat   *zk.Stat
}

// watch asks for the next event of the node at path. It is not left on a node that is not there, which is zk.ErrNoNode: nobody would ever remove it.
func (b *Backend) watch(path string) (watched, error) {
	return call(b, false, func(c *zk.Conn) (watched, error) {
		_, stat, events, err := c.GetW(path)
		if errors.Is(err, zk.ErrNoAuth) { // a foreign node; that it is there everybody may know
			_, stat, events, err = c.ExistsW(path)
		}
		return watched{path, events, stat}, err
	})
}

// watchNode has the claim's own node watched, if it is not. errGone: it is not there.
func (c *claim) watchNode() (<-chan zk.Event, error) {
	c.b.mu.Lock()
	events, path := c.watch, c.path
	c.b.mu.Unlock()
	if events != nil {
		return events, nil
	}
	w, err := c.b.watch(path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, errGone
	} else if err != nil {
		return nil, err
	}
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	c.watch, c.session, c.czxid = w.events, w.stat.EphemeralOwner, w.stat.Czxid
	return w.events, nil
}
