package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// sleep waits until the lock must be listed again: the node ahead changed, or a check is due. Meanwhile it finds out what a grant needs to
// know of the claim's own node.
func (c *claim) sleep(ctx context.Context, path string) error {
	identified := make(chan error, 1)
	go func() { identified <- c.identify() }() // in the same round trip
	events, free, err := c.watchAhead(path)
	if err = cmp.Or(<-identified, err); errors.Is(err, zk.ErrNoNode) {
		return nil
	} else if err != nil || free {
		return err
	}
	safety := time.NewTimer(max(c.b.o.TTL, 5*time.Second)) // newer servers send no event for a node that the user may no longer read
	defer safety.Stop()
	select {
	case <-events:
	case <-safety.C:
	case <-ctx.Done():
		return unknown(ctx.Err())
	}
	return nil
}

// watchAhead watches for the next change of path, as waitsFor returned it. Waiters share one watch of a path: go-zookeeper cannot cancel a watch. It
// keeps the channel until the event, also across lost connections, and then closes it. The end of the session is such an event too.
// free: nothing is ahead any more, or the claim's node is gone.
func (c *claim) watchAhead(path string) (events <-chan zk.Event, free bool, err error) {
	b := c.b
	b.mu.Lock()
	events = b.watches[path]
	b.mu.Unlock()
	if fired(events) {
		events = nil
	}
	switch {
	case path == c.parent:
		events, free, err = c.watchSiblings(events)
	case events == nil:
		events, err = b.watch(path)
	}
	if err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.watches[path] = events
	}
	return events, free, err
}

// fired reports whether a watch has had its event. Others who wait for it see its channel closed. nil, no watch: false.
func fired(events <-chan zk.Event) bool {
	select {
	case <-events:
		return true
	default:
		return false
	}
}

// watchSiblings lists the claim's siblings, and watches for their next change unless events does already.
func (c *claim) watchSiblings(events <-chan zk.Event) (_ <-chan zk.Event, free bool, err error) {
	children, err := call(c.b, false, "list", c.parent, func(conn *zk.Conn) (children []string, err error) {
		if events != nil {
			children, _, err = conn.Children(c.parent)
		} else {
			children, _, events, err = conn.ChildrenW(c.parent)
		}
		return children, err
	})
	if err != nil {
		return nil, false, err
	}
	inOrder(children)
	at := slices.Index(children, base(c.path()))
	return events, at < c.req.Permits, nil
}

// watch watches for the next event of the node at path. A missing node is zk.ErrNoNode. GetW leaves no watch on it: nothing would ever remove it.
func (b *Backend) watch(path string) (<-chan zk.Event, error) {
	return call(b, false, "read", path, func(c *zk.Conn) (<-chan zk.Event, error) {
		_, _, events, err := c.GetW(path)
		if errors.Is(err, zk.ErrNoAuth) { // a foreign node; its parent's changes show its end, also where newer servers hide that
			parent, node := path[:strings.LastIndexByte(path, '/')], base(path)
			var siblings []string
			if siblings, _, events, err = c.ChildrenW(parent); err == nil && !slices.Contains(siblings, node) {
				err = zk.ErrNoNode
			}
		}
		return events, err
	})
}
