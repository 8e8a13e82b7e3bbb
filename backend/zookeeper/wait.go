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
	c, err := b.enter(ctx, req)
	if err != nil {
		return nil, err
	}
	if c.isHeld() {
		return c, nil
	}
	woken := false
	for {
		var confirmed <-chan error
		if woken && c.l.isStale() { // it is likely the first now, so both are asked at once
			confirmed = c.confirming(ctx)
		}
		p, err := c.place(ctx)
		switch {
		case err == nil && p.at == 0:
			if err = c.assure(ctx, p, confirmed); err == nil {
				return c.win(ctx, p)
			}
		case err == nil:
			woken, err = c.sleep(ctx, p)
		}
		if err != nil && !c.rides(ctx, err) {
			return nil, c.failed(ctx, err)
		}
	}
}

// isStale says that so little of the session's validity is left that it must be confirmed before a lock is granted. Otherwise the list,
// which shows the claim's node as the first, is enough.
func (l *life) isStale() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Until(l.confirmed.Add(l.granted)) < l.granted/2
}

// rides says that a claim that waits goes on in spite of err: the servers are away, and its session may live.
func (c *claim) rides(ctx context.Context, err error) bool {
	return ctx.Err() == nil && c.l.ended() == nil && !errors.Is(err, errGone) && (connectionLost(err) || errors.Is(err, driver.ErrUnavailable))
}

// assure makes sure that the session of a claim that is the first is confirmed, by what is under way already if that is not nil.
func (c *claim) assure(ctx context.Context, p place, confirmed <-chan error) error {
	if p.fresh || confirmed == nil && !c.l.isStale() {
		return nil
	}
	if confirmed == nil {
		confirmed = c.confirming(ctx)
	}
	err := <-confirmed
	if errors.Is(err, zk.ErrNoNode) {
		return errGone
	}
	return err
}

// confirming makes a quorum confirm that the claim's node is there.
func (c *claim) confirming(ctx context.Context) <-chan error {
	path, confirmed := c.node(), make(chan error, 1)
	go func() { confirmed <- c.l.confirm(ctx, path) }()
	return confirmed
}

// sleep waits until there is a reason to look again. first: the claim is likely the first now.
func (c *claim) sleep(ctx context.Context, p place) (first bool, err error) {
	l := c.l
	l.mu.Lock()
	again := l.again
	l.mu.Unlock()
	wake := c.bell()
	select {
	case <-wake: // of the round before
	default:
	}
	ahead := c.parent + "/" + p.children[p.at-1]
	exists, stop, err := l.watch(ctx, ahead, c.signal)
	defer stop()
	if err != nil || !exists {
		return !exists && err == nil && p.at == 1, err
	}
	own, stopOwn, err := l.watch(ctx, c.node(), c.signal)
	defer stopOwn()
	if err != nil {
		return false, err
	}
	if !own {
		return false, errGone
	}
	safety := time.NewTimer(max(c.b.o.TTL, 5*time.Second))
	defer safety.Stop()
	for {
		l.mu.Lock()
		news, changed := l.news, l.over != nil || l.ready && l.again != again
		l.mu.Unlock()
		if changed {
			return false, l.ended()
		}
		select {
		case <-wake:
			return p.at == 1, nil
		case <-safety.C:
			return false, nil
		case <-news:
		case <-ctx.Done():
			return false, unknown(ctx.Err())
		}
	}
}

// signal wakes a claim that sleeps.
func (c *claim) signal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// bell is what signal rings.
func (c *claim) bell() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wake == nil {
		c.wake = make(chan struct{}, 1)
	}
	return c.wake
}
