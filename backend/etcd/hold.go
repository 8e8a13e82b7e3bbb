package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockport/lockport/driver"
)

// win makes c the holder: it is first in the queue. The mutex is held.
func (b *Backend) win(c *claim, p place) error {
	switch {
	case c.ended != nil:
		return fmt.Errorf("%w: the claim ended meanwhile", driver.ErrUnavailable)
	case c.watch != nil:
		return nil // a repeated call
	case c.lease.gone: // says a keep-alive, perhaps of a leader that had not applied the grant: Abandon deletes a key that is there after all
		return fmt.Errorf("%w: its lease ended meanwhile", driver.ErrUnknown)
	}
	c.grant = driver.Grant{Token: uint64(c.rev), Until: c.lease.until, Contended: p.contended}
	c.watch = &watch{prefix: c.prefix, from: p.revision + 1, events: c}
	c.timer = time.AfterFunc(watchDelay, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if c.ended == nil {
			b.watches.add(c.watch)
		}
	})
	return nil
}

// watchDelay is the age at which a hold gets a watch. Short holds need none.
const watchDelay = 50 * time.Millisecond

// end ends c for a reason, unless it has ended. The mutex is held.
func (c *claim) end(reason error) {
	if c.ended == nil {
		c.ended = reason
		c.unwatch()
	}
}

// unwatch ends the watch of a holder. The mutex is held.
func (c *claim) unwatch() {
	if c.timer != nil {
		c.timer.Stop()
	}
	c.b.watches.remove(c.watch)
}

// happened implements events, for the keys of the name while c holds it.
func (c *claim) happened(key string, deleted bool, revision int64) {
	switch own := key == c.key; {
	case own && deleted && uint64(revision) > c.grant.Token: // a late shared watch also reports the ends of earlier claims with this key
		c.lose()
	case !own && !deleted && c.req.Contended != nil && !(c.req.Shared && strings.HasPrefix(key, c.prefix+sharedTag)):
		c.req.Contended()
	}
}

// lose ends c, whose key is gone, and tells its holder.
func (c *claim) lose() {
	c.b.mu.Lock()
	lost := c.ended == nil
	c.end(errKeyGone)
	c.b.mu.Unlock()
	if lost && c.req.Lost != nil {
		c.req.Lost(errKeyGone)
	}
}

func (c *claim) Grant() driver.Grant { return c.grant }

// Key is the value that Lock.As returns for etcd. A transaction that compares it takes effect only while the lock is held.
type Key struct {
	Key            string
	CreateRevision int64
	Lease          int64 // other locks of this process share this lease: never revoke it
}

// As sets target if it is a *Key.
func (c *claim) As(target any) bool {
	k, ok := target.(*Key)
	if ok {
		*k = Key{Key: c.key, CreateRevision: int64(c.grant.Token), Lease: int64(c.lease.id)}
	}
	return ok
}

func (c *claim) missed() {
	c.b.doubted[c] = struct{}{}
	if !c.b.confirming {
		c.b.confirming = true
		c.b.background(c.b.confirmDoubted)
	}
}

const (
	// confirmBatch is the number of claims read in one transaction, with two reads each. By default, etcd allows 128.
	confirmBatch   = 60
	confirmTimeout = time.Second
)

// confirmDoubted confirms the doubted holders until none is left. It repeats failed reads after a pause.
func (b *Backend) confirmDoubted() {
	for pause := retrySoon; ; {
		var some []*claim
		b.mu.Lock()
		for c := range b.doubted {
			if len(some) == confirmBatch {
				break
			}
			delete(b.doubted, c)
			if c.ended == nil {
				some = append(some, c)
			}
		}
		b.confirming = len(some) > 0
		b.mu.Unlock()
		if len(some) == 0 {
			return
		}
		err := b.confirm(some)
		if errors.Is(err, driver.ErrRefused) && len(some) > 1 { // the server limits transactions, or one key is not permitted
			some = slices.DeleteFunc(some, func(c *claim) bool { return b.confirm([]*claim{c}) == nil })
		}
		if err == nil || len(some) == 0 {
			pause = retrySoon
			continue
		}
		b.mu.Lock()
		for _, c := range some {
			b.doubted[c] = struct{}{}
		}
		b.mu.Unlock()
		select {
		case <-time.After(pause):
			pause = min(2*pause, retryLate)
		case <-b.ctx.Done():
			return
		}
	}
}

// confirm checks that the holders' keys still exist, and whether others wait behind them. An error: it could not read them.
func (b *Backend) confirm(some []*claim) error {
	ctx, cancel := context.WithTimeout(b.ctx, confirmTimeout)
	defer cancel()
	var read []clientv3.Op
	for _, c := range some {
		from, to := c.rivals()
		read = append(read, clientv3.OpGet(c.key, clientv3.WithKeysOnly()),
			opGet(from, to, 1, clientv3.SortAscend, clientv3.WithMinCreateRev(int64(c.grant.Token)+1), clientv3.WithKeysOnly()))
	}
	a := b.commit(ctx, request{then: read})
	if a.err != nil {
		return a.err
	}
	for i, c := range some {
		own, later := rangeAt(a.txn, 2*i).Kvs, rangeAt(a.txn, 2*i+1).Kvs
		switch {
		case len(own) == 0 || uint64(own[0].CreateRevision) != c.grant.Token:
			c.lose()
		case len(later) > 0 && c.req.Contended != nil:
			c.req.Contended()
		}
	}
	return nil
}
