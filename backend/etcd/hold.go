package etcd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockport/lockport/driver"
)

// win makes c the holder: it stands first. The mutex is held.
func (b *Backend) win(c *claim, p place) error {
	switch {
	case c.closing || c.over != nil:
		return fmt.Errorf("%w: the claim has ended meanwhile", driver.ErrUnavailable)
	case c.watch != nil:
		return nil // again
	case c.lease.gone:
		b.drop(c)
		return fmt.Errorf("%w: its lease has ended meanwhile", driver.ErrUnavailable)
	}
	c.grant = driver.Grant{Token: uint64(c.rev), Until: c.lease.until, Contended: p.others}
	c.until = c.grant.Until
	c.watch = &watch{within: c.within, from: p.revision + 1, events: c}
	if b.watches.shared != nil { // it costs nothing
		b.watches.add(c.watch)
		return nil
	}
	c.timer = time.AfterFunc(holderPatience, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if c.timer != nil {
			c.timer = nil
			b.watches.add(c.watch)
		}
	})
	return nil
}

// holderPatience is how long a lock is held before its holder watches it. One that is held for a moment needs no watch.
const holderPatience = 50 * time.Millisecond

// unwatch ends the holder's watch. The mutex is held.
func (c *claim) unwatch() {
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	c.b.watches.remove(c.watch)
}

// happened implements events: it is told what happens to the keys of the name while c holds it.
func (c *claim) happened(key string, deleted bool) {
	switch own := key == c.key; {
	case own && deleted:
		c.b.gone(c, errKeyGone)
	case !own && !deleted && c.req.Contended != nil && !(c.req.Shared && strings.HasPrefix(key, c.within+sharedTag)):
		c.req.Contended()
	}
}

// gone ends c, whose key is gone, and tells the one who has it or waits.
func (b *Backend) gone(c *claim, why error) {
	tell := func() {}
	b.mu.Lock()
	if c.over == nil && !c.closing {
		c.over = why
		switch {
		case c.watch != nil:
			c.unwatch()
			if c.req.Lost != nil {
				tell = func() { c.req.Lost(why) }
			}
		default:
			b.drop(c)
			if c.wake != nil {
				tell = c.wake
			}
		}
	}
	b.mu.Unlock()
	tell()
}

// Grant implements driver.Lease.
func (c *claim) Grant() driver.Grant { return c.grant }

// Key is what Lock.As gives of a lock on etcd: what a transaction must compare to be sure that the lock is still held.
type Key struct {
	Key            string
	CreateRevision int64
	Lease          int64 // the lease that the key is attached to, and other locks of this process too: never revoke it
}

// As sets target if it is a *Key.
func (c *claim) As(target any) bool {
	k, ok := target.(*Key)
	if ok {
		*k = Key{Key: c.key, CreateRevision: int64(c.grant.Token), Lease: int64(c.lease.id)}
	}
	return ok
}

// missed implements events.
func (c *claim) missed() { c.b.confirm([]*claim{c}) }

const (
	// readAtOnce is how many keys are read in one transaction.
	readAtOnce = 100
	// readLimit is for how long.
	readLimit = time.Second
)

// confirm looks whether the keys of those who hold are still there. Where it cannot know, a renewal will look again.
func (b *Backend) confirm(all []*claim) {
	ctx, cancel := context.WithTimeout(b.ctx, readLimit)
	defer cancel()
	for some := range slices.Chunk(all, readAtOnce) {
		var read []clientv3.Op
		for _, c := range some {
			read = append(read, clientv3.OpGet(c.key, clientv3.WithKeysOnly()))
		}
		a := b.commit(ctx, request{then: read})
		if a.err != nil {
			return
		}
		for i, c := range some {
			if kvs := rangeAt(a.txn, i).Kvs; len(kvs) == 0 || kvs[0].CreateRevision != c.rev {
				b.gone(c, errKeyGone)
			}
		}
	}
}
