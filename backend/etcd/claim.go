package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/lockport/lockport/driver"
)

// claim is what this backend knows of one owner id: a claim that is being made or waits, and then the lease.
type claim struct {
	b      *Backend
	req    driver.Request
	within string // what the keys of all claims on the name begin with

	// Guarded by Backend.mu; once set, lease and key never change.
	lease   *lease
	key     string
	rev     int64  // create revision of its key; 0: not known to be there
	gone    error  // why its key is not there any more, while it waits
	wake    func() // tells who waits that gone is set; nil: nobody waits
	grant   driver.Grant
	since   time.Duration // when it was granted, after the start of the process
	timer   *time.Timer   // opens watch; nil: it has
	watch   *watch
	endedAs error // what Release returns once it has ended

	asking    int32 // requests under way that may enter it
	late      bool  // such a request may arrive later
	granted   bool
	ended     bool
	abandoned bool // nothing is asked for it any more
	releasing bool // a release was, or is about to be, sent
	maybe     bool // its outcome is not known
}

// started is when the process was, more or less.
var started = time.Now()

func (b *Backend) newClaim(req driver.Request) *claim {
	return &claim{b: b, req: req, within: b.layout.of(req.Name)}
}

// ttl is that of the claim in whole seconds.
func (c *claim) ttl() time.Duration { return (c.req.TTL + time.Second - 1) / time.Second * time.Second }

// attach chooses the key of c: one that belongs to l and is free.
func (b *Backend) attach(c *claim, l *lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c.lease = l
	for n := 0; ; n++ {
		c.key = keyOf(c.within, l.id, n)
		if _, taken := l.keys[c.key]; !taken {
			l.keys[c.key] = struct{}{}
			c.within = c.key[:len(c.within)] // one string in memory instead of two
			return
		}
	}
}

// detach gives the key of c, whose lease has ended, up.
func (b *Backend) detach(c *claim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c.lease, c.key = nil, ""
}

// sending notes that a request that may enter c is about to be sent. false: it must not, since c was abandoned.
func (b *Backend) sending(c *claim) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !c.abandoned {
		c.asking++
	}
	return !c.abandoned
}

// asked notes what became of that request.
func (b *Backend) asked(c *claim, err error) {
	unknown := err != nil && !certain(err)
	b.mu.Lock()
	c.asking--
	c.late = c.late || unknown
	l := c.lease
	b.mu.Unlock()
	if unknown {
		b.leases.retire(l)
	}
}

// certain reports that a request whose error this is had no effect, and will have none.
func certain(err error) bool {
	return errors.Is(err, driver.ErrHeld) || errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrRefused)
}

// placed notes that the key of c is there.
func (b *Backend) placed(c *claim, rev int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c.rev = rev
}

// settle notes that a method of the driver returns err for c, and forgets c if there is nothing to remember.
func (b *Backend) settle(c *claim, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if certain(err) && c.rev == 0 && c.asking == 0 && !c.late {
		b.drop(c)
	}
}

// known finds the claim of req, with its lease and key; nil: there is none. late: a request that enters it may still arrive. Nothing is asked
// for it from now on.
func (b *Backend) known(req driver.Request) (c *claim, l *lease, key []byte, late bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c = b.claims[req.Owner]
	if c == nil || c.req.Name != req.Name {
		return nil, nil, nil, false
	}
	c.abandoned = true
	c.unwatch()
	return c, c.lease, []byte(c.key), c.asking > 0 || c.late
}

// forget ends c.
func (b *Backend) forget(c *claim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c.ended = true
	b.drop(c)
}

// drop forgets c. Its key may serve another claim if no request is under way that could meet that one. The mutex is held.
func (b *Backend) drop(c *claim) {
	if b.claims[c.req.Owner] != c {
		return
	}
	delete(b.claims, c.req.Owner)
	if c.lease != nil && c.asking == 0 && !c.late && !c.maybe {
		delete(c.lease.keys, c.key)
	}
}

// win makes c the holder: it stands first.
func (b *Backend) win(c *claim, p place) error {
	until := b.leases.validity(c.lease)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case c.abandoned || c.ended || c.gone != nil:
		return fmt.Errorf("%w: the claim has ended meanwhile", driver.ErrUnavailable)
	case c.granted:
		return nil
	case until.IsZero():
		b.drop(c)
		return fmt.Errorf("%w: its lease has ended meanwhile", driver.ErrUnavailable)
	}
	c.granted, c.since = true, time.Since(started)
	c.grant = driver.Grant{Token: uint64(c.rev), Until: until, Contended: p.others}
	if c.req.Lost != nil || c.req.Contended != nil {
		c.watch = &watch{key: c.within, below: true, from: p.revision + 1, events: c}
		c.timer = time.AfterFunc(holderPatience, func() { b.watchHolder(c) })
	}
	return nil
}

var errKeyGone = fmt.Errorf("%w: its key is gone from etcd: its lease has ended, or somebody has deleted it", driver.ErrLost)

// holderPatience is how long a lock is held before its holder watches it. Who holds for a moment at a time needs no watch.
const holderPatience = 50 * time.Millisecond

func (b *Backend) watchHolder(c *claim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.watch != nil {
		c.timer = nil
		b.watches.add(c.watch)
	}
}

// unwatch ends the holder's watch. The mutex is held.
func (c *claim) unwatch() {
	if c.watch != nil {
		if c.timer != nil {
			c.timer.Stop()
		}
		c.b.watches.remove(c.watch)
		c.watch = nil
	}
}

// happened implements witness. It is told what happened to the keys of the name while c holds it.
func (c *claim) happened(e *mvccpb.Event) {
	switch own := string(e.Kv.Key) == c.key; {
	case own && e.Type == mvccpb.Event_DELETE:
		c.b.removed(c, errKeyGone)
	case !own && e.Type == mvccpb.Event_PUT && c.req.Contended != nil:
		c.req.Contended()
	}
}

// removed ends c, whose key is gone, and tells who has it or waits.
func (b *Backend) removed(c *claim, why error) {
	tell := func() {}
	b.mu.Lock()
	switch {
	case c.ended || c.gone != nil || c.releasing || c.abandoned:
	case c.granted:
		c.ended, c.endedAs = true, why
		c.unwatch()
		if lost := c.req.Lost; lost != nil {
			tell = func() { lost(why) }
		}
	default:
		c.gone = why
		b.drop(c)
		if c.wake != nil {
			tell = c.wake
		}
	}
	b.mu.Unlock()
	tell()
}

// leaseGone ends all claims on l, which etcd does not know any more.
func (b *Backend) leaseGone(l *lease) {
	var all []*claim
	b.mu.Lock()
	for _, c := range b.claims {
		if c.lease == l && c.rev != 0 {
			all = append(all, c)
		}
	}
	b.mu.Unlock()
	for _, c := range all {
		b.removed(c, errLeaseGone)
	}
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
		*k = Key{Key: c.key, CreateRevision: int64(c.grant.Token), Lease: c.lease.id}
	}
	return ok
}

// Release implements driver.Lease, in one transaction.
func (c *claim) Release(ctx context.Context) error {
	if ended, how := c.ending(); ended {
		return how
	}
	return c.released(c.b.flights.run(ctx, c.req.Name, c.release()))
}

// ending ends the watch of a claim that is about to be released, and reports whether it has ended before, and how.
func (c *claim) ending() (ended bool, how error) {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	if c.ended {
		c.b.drop(c)
		return true, c.endedAs
	}
	c.releasing = true
	c.unwatch()
	return false, nil
}

// release deletes the key of the claim. There is nothing to compare: only this process uses that key, and for no other claim as long as
// this request may be under way.
func (c *claim) release() request {
	return request{delete: &pb.DeleteRangeRequest{Key: []byte(c.key)}}
}

// released makes the outcome of a release of etcd's answer.
func (c *claim) released(a answer) error {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	switch {
	case c.ended:
		return c.endedAs
	case a.err != nil:
		c.maybe = c.maybe || !certain(a.err) || isFull(a.err)
		return a.err
	}
	c.ended = true
	c.maybe = c.maybe || a.repeated
	// An earlier attempt may have freed it: before its validity ended nobody else can have.
	if !a.deleted && !(c.maybe && time.Now().Before(c.b.leases.validity(c.lease))) {
		c.endedAs = errKeyGone
	}
	c.b.drop(c)
	return c.endedAs
}

// outcome is that of a release that was part of a request with the error err.
func (c *claim) outcome(err error) error {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	switch {
	case c.ended:
		return c.endedAs
	case err == nil:
		return driver.ErrUnknown
	}
	return err
}
