package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport/driver"
)

// lookEvery is how often a waiting claim checks its place without an event.
const lookEvery = 5 * time.Second

// Wait implements driver.Waiter. It keeps the claim's lease alive. The claim keeps its place in the queue across interruptions shorter than
// the TTL.
func (b *Backend) Wait(ctx context.Context, req driver.Request) (driver.Lease, error) {
	return b.attempt(req, func(c *claim) (p place, err error) {
		b.mu.Lock()
		queued := c.rev != 0
		b.mu.Unlock()
		if !queued {
			if p, err = b.acquire(ctx, c, true, b.write); err != nil || p.ahead == 0 {
				return p, err
			}
		}
		return b.waitTurn(ctx, c, p)
	})
}

// wakeup wakes a waiting claim after enough keys were deleted.
type wakeup struct {
	wake chan struct{}
	left atomic.Int64
}

func (t *wakeup) happened(_ string, deleted bool, _ int64) {
	if deleted && t.left.Add(-1) <= 0 {
		t.missed()
	}
}

// missed implements events. It needs no mutex.
func (t *wakeup) missed() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// waitTurn waits in the queue until c is granted. A zero p: its place is not known, so it looks at once.
func (b *Backend) waitTurn(ctx context.Context, c *claim, p place) (place, error) {
	woken := &wakeup{wake: make(chan struct{}, 1)}
	woken.left.Store(int64(p.ahead))
	if p.ahead == 0 {
		woken.missed()
	}
	var ahead *watch
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.watches.remove(ahead)
	}()
	pulse := time.NewTicker(min(c.lease.ttl/6, lookEvery))
	defer pulse.Stop()
	for looked := time.Now(); ; {
		if p.ahead > 0 && (ahead == nil || ahead.key != p.before) {
			b.mu.Lock()
			b.watches.remove(ahead)
			ahead = &watch{prefix: c.prefix, key: p.before, seen: p.revision, events: woken}
			b.watches.add(ahead)
			b.mu.Unlock()
		}
		select {
		case <-woken.wake:
		case <-pulse.C:
			b.mu.Lock()
			b.refresh(c.lease, false)
			gone := c.lease.gone
			b.mu.Unlock()
			if !gone && time.Since(looked) < lookEvery {
				continue
			}
		case <-ctx.Done():
			return p, classify(ctx, ctx.Err(), true)
		case <-b.ctx.Done():
			return p, fmt.Errorf("%w: %v", driver.ErrUnknown, errClosed)
		}
		// Until locate returns, nothing keeps the lease alive.
		woken.left.Store(0) // a deletion meanwhile wakes it again
		soon, cancel := context.WithTimeout(ctx, c.lease.ttl/replaceBelow)
		now, err := b.locate(soon, c)
		cancel()
		switch {
		case err == errPlaceGone, errors.Is(err, driver.ErrRefused):
			return p, err
		case err != nil: // it may be first already
			looked = time.Time{}
		case now.ahead == 0:
			return now, nil
		default:
			p, looked = now, time.Now()
			woken.left.Store(int64(p.ahead))
		}
	}
}
