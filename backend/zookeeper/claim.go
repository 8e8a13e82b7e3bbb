package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockport/lockport/driver"
)

// claim is one claim, and its lease once granted.
type claim struct {
	b      *Backend
	req    driver.Request
	parent string // the lock's path
	prefix string // path of its node, before the sequence number

	// b.mu guards these.
	state    claimState
	creation *creation       // of its node, under way or of unknown outcome; nil: none
	node     Node            // Path "": none, or not known. Session, Czxid 0: not known
	grant    driver.Grant    // set once
	timeout  time.Duration   // the session's, by which the grant's validity and those of renewals count
	watch    <-chan zk.Event // of the node, while held; nil: none
}

type claimState uint8

const (
	claiming claimState = iota // it may wait for others
	held                       // granted, and not known to be lost
	ended                      // lost, released or abandoned: it is never granted, and creates no node
)

// Node is a lock's own node, for Lock.As.
type Node struct {
	Path    string // with the sequence number
	Session int64  // owner of the node
	Czxid   int64  // the driver's token: the transaction that created the node, or a later one that deleted another claim's node
}

// errGone is how a claim ends whose node is missing (zk.ErrNoNode): a holder has lost it, a waiting claim must start over.
var errGone = errors.New("its node was deleted")

// TryAcquire implements driver.Backend.
func (b *Backend) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	return b.acquire(ctx, req, (*claim).try)
}

// Wait implements driver.Waiter. The claim keeps its place in the queue across lost connections, while the session lives.
func (b *Backend) Wait(ctx context.Context, req driver.Request) (driver.Lease, error) {
	return b.acquire(ctx, req, (*claim).wait)
}

// acquire registers the claim of req, and has it granted by attempt. A call that it leaves behind has no effect once the claim was abandoned.
func (b *Backend) acquire(ctx context.Context, req driver.Request, attempt func(*claim, context.Context) error) (driver.Lease, error) {
	if req.TTL != b.o.TTL {
		return nil, fmt.Errorf("%w: the TTL must be the session's, %v; this claim has %v", driver.ErrRefused, b.o.TTL, req.TTL)
	}
	c := b.newClaim(req)
	b.mu.Lock()
	c = cmp.Or(b.claims[c.prefix], c)
	b.claims[c.prefix] = c
	b.mu.Unlock()
	return inTime(ctx, driver.ErrUnknown, func() (driver.Lease, error) {
		err := c.ready(ctx)
		if err == nil {
			if err = b.checkTimeout(); err != nil {
				b.renegotiate()
			}
		}
		if err == nil {
			err = attempt(c, ctx)
		}
		if err != nil {
			return nil, c.failed(err)
		}
		return c, nil
	})
}

// newClaim makes a claim without registering it.
func (b *Backend) newClaim(req driver.Request) *claim {
	parent := b.o.Chroot + "/" + parentName(req)
	prefix := parent + "/" + nodePrefix(req, b.o.ReadWriteLock)
	return &claim{b: b, req: req, parent: prefix[:len(parent)], prefix: prefix}
}

// forget drops a claim that has ended.
func (c *claim) forget() {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	if c.b.claims[c.prefix] == c {
		delete(c.b.claims, c.prefix)
	}
}

// ready waits until an earlier creation of the claim's node has returned, and then until the connection is usable.
func (c *claim) ready(ctx context.Context) error {
	var underWay <-chan struct{}
	c.b.mu.Lock()
	if c.creation != nil {
		underWay = c.creation.underWay
	}
	c.b.mu.Unlock()
	if underWay != nil {
		select {
		case <-underWay:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return c.b.ready(ctx)
}

// try claims without waiting.
func (c *claim) try(ctx context.Context) error {
	ahead, err := c.advance(ctx)
	if err == nil && ahead != "" && !c.req.Queue {
		err = c.withdraw()
	}
	if err == nil && ahead != "" {
		err = &driver.HeldError{}
	}
	return err
}

// wait claims, and waits for those ahead.
func (c *claim) wait(ctx context.Context) error {
	for {
		ahead, err := c.advance(ctx)
		if err == nil && ahead == "" {
			return nil
		} else if err == nil {
			err = c.sleep(ctx, ahead)
		}
		switch {
		case err == nil:
		case ctx.Err() != nil, !oneOf(err, errNoAnswer, driver.ErrUnavailable):
			return err
		default: // the servers are unreachable; the session may live
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
			}
			if err = c.b.ready(ctx); errors.Is(err, errSessionEnded) {
				return err
			}
		}
	}
}

// advance ensures that the claim has a node, and grants the lock if nothing is ahead. Otherwise it returns what is, see waitsFor.
func (c *claim) advance(ctx context.Context) (ahead string, err error) {
	children, at, err := c.place(ctx)
	if err == nil {
		ahead, err = c.waitsFor(children, at)
	}
	if err == nil && ahead == "" {
		err = c.win(ctx, len(children) > holdersOf(children))
	}
	return ahead, err
}

// place ensures that the claim has a node. It returns the lock's children in order, and the index of the claim's own.
func (c *claim) place(ctx context.Context) (children []string, at int, err error) {
	if err := c.resolveCreation(); err != nil {
		return nil, 0, err
	}
	var l list
	if c.path() == "" {
		if l, err = c.create(ctx); err != nil {
			return nil, 0, err
		}
	}
	own := base(c.path())
	if exhausted(own) {
		return nil, 0, fmt.Errorf("%w: the sequence numbers below %s are used up; delete that node while nobody holds the lock", driver.ErrRefused, c.parent)
	}
	if !slices.Contains(l.children, own) { // the list was not requested, or overtook the creation
		if l, err = c.b.list(c.parent); err != nil {
			return nil, 0, err
		}
	}
	inOrder(l.children)
	switch at = slices.Index(l.children, own); {
	case at < 0:
		err = zk.ErrNoNode
	case at == 0:
		c.inferCzxid(l)
	}
	return l.children, at, err
}

// waitsFor returns the path that the claim, whose node is children[at], must wait for: the node ahead; for a reader, the last writer's node
// ahead; for a permit, whose holders end in any order, the parent of all, or a node with another number of permits. "": nothing. Lower numbers were
// created earlier, so the server that shows our node has seen them all.
func (c *claim) waitsFor(children []string, at int) (path string, err error) {
	if n := c.req.Permits; n > 0 {
		for i, child := range children[:at] {
			switch other := permitsOf(modeOfNode(child)); {
			case other == 0 || other == n:
			case i > 0: // it will be refused itself, or its client has died
				return c.parent + "/" + child, nil
			default:
				return "", driver.OtherPermits(other, n)
			}
		}
		if at < n {
			return "", nil
		}
		return c.parent, nil
	}
	for i := at - 1; i >= 0; i-- {
		if !c.req.Shared || modeOfNode(children[i]) != readMode {
			return c.parent + "/" + children[i], nil
		}
	}
	return "", nil
}

// win grants a claim that has nothing ahead.
func (c *claim) win(ctx context.Context, contended bool) error {
	b := c.b
	if err := c.identify(); err != nil {
		return err
	}
	if b.stale() { // also if the session is older than the backend
		if err := b.freshen(ctx, c.path()); err != nil {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case c.state == held:
	case c.state == ended:
		return unknown(errors.New("the claim was abandoned"))
	case c.node.Session != b.session.id: // it ended, or was given up
		return unknown(errSessionEnded)
	case uint64(c.node.Czxid) > driver.MaxToken:
		return fmt.Errorf("%w: the transaction number %d is beyond what a fencing token can hold", driver.ErrRefused, c.node.Czxid)
	default:
		c.timeout = b.timeout()
		c.grant = driver.Grant{Token: uint64(c.node.Czxid), Until: b.session.confirmed.Add(c.timeout), Contended: contended}
		c.state = held
	}
	return nil
}

// failed classifies the error of a claim, and forgets the claim if it certainly has no effect. One that would wait is repeated or abandoned later.
func (c *claim) failed(err error) error {
	if errors.Is(err, zk.ErrNoNode) {
		c.forget()
		return unavailable(errGone)
	}
	c.b.mu.Lock()
	path, nothing := c.node.Path, c.hasNothing()
	c.b.mu.Unlock()
	switch {
	case nothing:
		err = withoutEffect(err)
	case errors.Is(err, driver.ErrHeld): // it has a place in the queue
		return err
	case path != "" && errors.Is(err, driver.ErrRefused) && c.withdraw() == nil:
	default:
		return unknown(err)
	}
	if !c.req.Queue {
		c.forget()
	}
	return err
}

func (c *claim) Grant() driver.Grant { return c.grant }

// As implements driver.LeaseAs: it sets a *Node.
func (c *claim) As(target any) bool {
	n, ok := target.(*Node)
	if ok {
		c.b.mu.Lock()
		defer c.b.mu.Unlock()
		*n = c.node
	}
	return ok
}

// RenewBatch implements driver.BatchRenewer. One request confirms the session, and with it every claim.
func (b *Backend) RenewBatch(ctx context.Context, leases []driver.Lease, results []driver.Renewal) {
	var err error
	for _, lease := range leases { // until one whose parent this user may still read
		_, err = inTime(ctx, driver.ErrUnknown, func() (any, error) { return nil, b.freshen(ctx, lease.(*claim).parent) })
		if !errors.Is(err, zk.ErrNoAuth) {
			break
		}
	}
	if errors.Is(err, zk.ErrNoNode) {
		err = nil // that claim's watch reports the loss
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, lease := range leases {
		switch c := lease.(*claim); {
		case c.state != held || c.node.Session != b.session.id:
			results[i].Err = fmt.Errorf("%w: it was released, its node was deleted, or its session has ended", driver.ErrLost)
		case err != nil:
			results[i].Err = err
		default:
			results[i].Until = b.until()
			c.timeout = max(c.timeout, b.timeout())
		}
	}
}

// lose ends a held claim as lost, and tells its holder.
func (c *claim) lose(reason error) {
	c.b.mu.Lock()
	lost := c.state == held
	if lost {
		c.state = ended
	}
	c.b.mu.Unlock()
	if lost && c.req.Lost != nil {
		c.req.Lost(fmt.Errorf("%w: %w", driver.ErrLost, reason))
	}
}

// Release implements driver.Lease, in one request. Node names are not reused, so a late request deletes nobody else's node.
func (c *claim) Release(ctx context.Context) error {
	c.b.mu.Lock()
	path := c.node.Path
	c.state = ended
	c.b.mu.Unlock()
	_, err := inTime(ctx, driver.ErrUnknown, func() (any, error) { return nil, c.b.delete(path) })
	switch {
	case errors.Is(err, zk.ErrNoNode):
		err = fmt.Errorf("%w: its node was already deleted", driver.ErrLost)
	case err != nil:
		return err
	}
	c.forget()
	return err
}

// Abandon implements driver.Backend. It waits for a creation that is in flight, or kept by the client library. By its GUID, it looks for a
// node whose creation's reply was lost.
func (b *Backend) Abandon(ctx context.Context, req driver.Request) error {
	_, err := inTime(ctx, driver.ErrUnknown, func() (any, error) { return nil, b.abandon(ctx, req) })
	return err
}

func (b *Backend) abandon(ctx context.Context, req driver.Request) error {
	c := b.newClaim(req)
	c.creation = new(creation) // perhaps
	b.mu.Lock()
	c = cmp.Or(b.claims[c.prefix], c)
	c.state = ended
	nothing := c.hasNothing()
	b.mu.Unlock()
	if nothing {
		c.forget()
		return nil
	}
	switch err := c.ready(ctx); {
	case errors.Is(err, errSessionEnded):
		c.forget()
		return nil
	case errors.Is(err, driver.ErrRefused):
		return err
	case err != nil:
		return unknown(err)
	}
	err := c.resolveCreation()
	if err == nil && c.path() != "" {
		err = c.withdraw()
	}
	if err == nil {
		c.forget()
	}
	return err
}
