package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport/driver"
)

// lookEvery is how often a claim that waits looks where it stands although it was told of nothing.
const lookEvery = 5 * time.Second

// Wait implements driver.Waiter. It keeps the claim's lease alive meanwhile, and its place in the queue over interruptions that are shorter
// than the TTL.
func (b *Backend) Wait(ctx context.Context, req driver.Request) (driver.Lease, error) {
	c, err := b.enter(req)
	if err != nil {
		return nil, err
	}
	p, err := b.ask(ctx, c, true, nil)
	if err == nil && p.ahead > 0 {
		p, err = b.stand(ctx, c, p)
	}
	return b.outcome(c, p, err)
}

// turn tells a claim that waits to look where it stands, when as many keys have been deleted as have to be.
type turn struct {
	wake chan struct{}
	left atomic.Int64
}

func (t *turn) happened(_ string, deleted bool) {
	if deleted && t.left.Add(-1) <= 0 {
		t.missed()
	}
}

func (t *turn) missed() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// stand waits in the queue until c is granted.
func (b *Backend) stand(ctx context.Context, c *claim, p place) (place, error) {
	woken := &turn{wake: make(chan struct{}, 1)}
	woken.left.Store(int64(p.ahead))
	var ahead *watch
	b.mu.Lock()
	l, over := c.lease, c.over
	c.wake = woken.missed
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		c.wake = nil
		b.watches.remove(ahead)
	}()
	pulse := time.NewTicker(l.ttl / 6)
	defer pulse.Stop()
	looked := time.Now()
	for over == nil {
		if ahead == nil || ahead.key != p.before {
			b.mu.Lock()
			b.watches.remove(ahead)
			ahead = &watch{within: c.within, key: p.before, seen: p.revision, events: woken}
			b.watches.add(ahead)
			b.mu.Unlock()
		}
		select {
		case <-woken.wake:
		case <-pulse.C:
			b.mu.Lock()
			b.keep(l, false)
			b.mu.Unlock()
			if time.Since(looked) < lookEvery {
				continue
			}
		case <-ctx.Done():
			return p, classify(ctx, ctx.Err(), true)
		case <-b.ctx.Done():
			return p, fmt.Errorf("%w: %v", driver.ErrUnknown, errClosed)
		}
		// Meanwhile nobody keeps the lease alive.
		woken.left.Store(0) // what is deleted while it looks wakes it again
		soon, cancel := context.WithTimeout(ctx, l.ttl/spentBelow)
		now, err := b.look(soon, c)
		cancel()
		b.mu.Lock()
		over = c.over
		b.mu.Unlock()
		switch {
		case over != nil:
		case errors.Is(err, driver.ErrRefused):
			return p, err
		case err != nil: // it may have been its turn
			looked = time.Time{}
		case now.ahead == 0:
			return now, nil
		default:
			p, looked = now, time.Now()
			woken.left.Store(int64(p.ahead))
		}
	}
	return p, fmt.Errorf("%w: %v", driver.ErrUnavailable, over)
}
