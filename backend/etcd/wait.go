package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

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
	if err == nil && !p.first() {
		p, err = b.stand(ctx, c, p)
	}
	return b.outcome(c, p, err)
}

// stand waits in the queue until c is the first.
func (b *Backend) stand(ctx context.Context, c *claim, p place) (place, error) {
	woken := make(chan struct{}, 1)
	wake := func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	}
	b.mu.Lock()
	l, gone := c.lease, c.gone
	c.wake = wake
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		c.wake = nil
	}()
	var ahead *watch
	defer func() {
		if ahead != nil {
			b.watches.remove(ahead)
		}
	}()
	pulse := time.NewTicker(l.ttl / 6)
	defer pulse.Stop()
	looked := time.Now()
	for gone == nil {
		if ahead == nil || ahead.key != string(p.ahead) {
			if ahead != nil {
				b.watches.remove(ahead)
			}
			revision := p.revision
			ahead = &watch{key: string(p.ahead), deletes: true, events: witnessed(func(*mvccpb.Event) { wake() }), opened: func(now int64) {
				if now != revision { // something has happened between the look and the watch
					wake()
				}
			}}
			b.watches.add(ahead)
		}
		select {
		case <-woken:
		case <-pulse.C:
			b.leases.keepFresh(l)
			b.watches.checkUp()
			if b.watches.sees(ahead) && time.Since(looked) < lookEvery {
				continue
			}
		case <-ctx.Done():
			return p, classify(ctx, ctx.Err(), true)
		case <-b.link.ctx.Done():
			return p, fmt.Errorf("%w: %v", driver.ErrUnknown, errClosed)
		}
		now, err := b.lookSoon(ctx, c, l.ttl/spentBelow)
		b.mu.Lock()
		gone = c.gone
		b.mu.Unlock()
		switch {
		case gone != nil:
		case errors.Is(err, driver.ErrRefused):
			return p, err
		case err == nil && now.first():
			return now, nil
		case err == nil:
			p, looked = now, time.Now()
		default: // it may have been its turn
			looked = time.Time{}
		}
	}
	return p, fmt.Errorf("%w: %v", driver.ErrUnavailable, gone)
}

// lookSoon is look, for at most patience: meanwhile nobody keeps the lease alive.
func (b *Backend) lookSoon(ctx context.Context, c *claim, patience time.Duration) (place, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return b.look(ctx, c)
}
