package zookeeper

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

const (
	// tendEvery is the interval between checks of held locks. Each watch has a channel; a goroutine per hold would be too many.
	tendEvery = 150 * time.Millisecond
	// maxWatchers bounds the concurrent requests for watches.
	maxWatchers = 8
)

// tend looks after the held locks and the session, until Close.
func (b *Backend) tend() {
	ticker := time.NewTicker(min(tendEvery, b.o.TTL/30))
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			b.sweep()
			b.beat()
		case <-b.ctx.Done():
			return
		}
	}
}

// sweep looks for losses. A node is watched from the first sweep of its hold: most holds are shorter.
func (b *Backend) sweep() {
	lost := make(map[*claim]error)
	var unwatched []*claim
	b.mu.Lock()
	b.observe()
	for _, c := range b.claims {
		if c.state != held {
			continue
		}
		if reason := c.lossSeen(); reason != nil {
			lost[c] = reason
		} else if c.watch == nil {
			unwatched = append(unwatched, c)
		}
	}
	maps.DeleteFunc(b.watches, func(_ string, events <-chan zk.Event) bool { return fired(events) })
	b.mu.Unlock()
	for c, reason := range lost {
		c.lose(reason)
	}
	if len(unwatched) > 0 && b.watching.TryLock() { // many take long; meanwhile, sweep finds losses among the others
		go func() {
			defer b.watching.Unlock()
			b.watchAll(unwatched)
		}()
	}
}

// lossSeen returns why a held claim is known to be lost. nil: it is not. b.mu is held.
func (c *claim) lossSeen() error {
	switch timeout := c.b.timeout(); {
	case c.node.Session != c.b.session.id:
		return errSessionEnded
	case timeout < c.timeout: // a server with another configuration: the validity that the holder counts on is too long
		return fmt.Errorf("the server shortened the session's timeout from %v to %v", c.timeout, timeout)
	}
	select {
	case e := <-c.watch:
		c.watch = nil
		switch {
		case e.Type == zk.EventNodeDeleted:
			return errGone
		case errors.Is(e.Err, zk.ErrClosing):
			return errors.New("the connection was closed")
		}
	default:
	}
	return nil
}

var errSessionEnded = errors.New("the session has ended")

// watchAll watches the nodes of held claims, and finds which are gone. The next sweep retries those that it cannot watch now.
func (b *Backend) watchAll(claims []*claim) {
	for some := range slices.Chunk(claims, maxWatchers) {
		if b.ctx.Err() != nil {
			return
		}
		var watchers sync.WaitGroup
		for _, c := range some {
			watchers.Go(func() {
				switch events, err := b.watch(c.path()); {
				case err == nil:
					b.mu.Lock()
					c.watch = events
					b.mu.Unlock()
				case errors.Is(err, zk.ErrNoNode):
					c.lose(errGone)
				}
			})
		}
		watchers.Wait()
	}
}
