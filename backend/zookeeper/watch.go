package zookeeper

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

const (
	// sweepEvery is the interval between checks of held locks. Each watch has a channel; a goroutine per hold would be too many.
	sweepEvery = 150 * time.Millisecond
	// maxWatchers bounds the concurrent requests for watches.
	maxWatchers = 8
)

// hold adds a granted claim to those that are told of their loss. b.mu is held.
func (b *Backend) hold(c *claim) {
	b.held[c] = struct{}{}
	if !b.sweeping {
		b.sweeping = true
		go b.sweep()
	}
}

// sweep looks for losses while anything is held. A node is watched from the first sweep of its hold: most holds are shorter.
func (b *Backend) sweep() {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-b.done:
			return
		}
		lost := make(map[*claim]error)
		var unwatched []*claim
		b.mu.Lock()
		b.observe()
		for c := range b.held {
			if c.session != b.session.id {
				lost[c] = errSessionEnded
				continue
			}
			select {
			case e := <-c.watch:
				c.watch = nil
				if e.Type == zk.EventNodeDeleted {
					lost[c] = errGone
				} else if errors.Is(e.Err, zk.ErrClosing) {
					lost[c] = errors.New("the connection was closed")
				}
			default:
			}
			if c.watch == nil && lost[c] == nil {
				unwatched = append(unwatched, c)
			}
		}
		if len(b.held) == 0 {
			b.sweeping = false
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
		for c, reason := range lost {
			c.lose(reason)
		}
		watchAll(unwatched)
	}
}

var errSessionEnded = errors.New("the session has ended")

// watchAll watches the nodes of held claims, and finds which are gone. The next sweep retries those that it cannot watch now.
func watchAll(claims []*claim) {
	var next atomic.Int64
	var watchers sync.WaitGroup
	for range min(len(claims), maxWatchers) {
		watchers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(claims); i = int(next.Add(1)) - 1 {
				c := claims[i]
				switch w, err := c.b.watch(c.node()); {
				case err == nil:
					c.b.mu.Lock()
					c.watch = w.events
					c.b.mu.Unlock()
				case errors.Is(err, zk.ErrNoNode):
					c.lose(errGone)
				}
			}
		})
	}
	watchers.Wait()
}
