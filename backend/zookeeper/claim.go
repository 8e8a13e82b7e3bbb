package zookeeper

import (
	"context"
	"errors"
	"fmt"
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
	abandoned bool
	creating  chan struct{} // closed when the creation in flight returns; nil: none
	unsure    bool          // a creation was sent, its outcome is unknown
	conn      *zk.Conn      // the connection of the last creation
	path      string        // of its node; "": none, or not known
	session   int64         // owner of the node; 0: not known
	czxid     int64         // the token: the transaction that created the node, or a later one, see inferCzxid; 0: not known
	grant     driver.Grant
	timeout   time.Duration   // the session's, by which the grant's validity and those of renewals count
	held      bool            // granted, and not known to be lost
	watch     <-chan zk.Event // of the node, while held; nil: none
}

type claimKey struct{ name, owner string }

// errGone: a waiting claim must start over.
var errGone = errors.New("its node was deleted")

// register returns the claim of req, which it creates if there is none.
func (b *Backend) register(ctx context.Context, req driver.Request) (*claim, error) {
	if req.TTL != b.o.TTL {
		return nil, fmt.Errorf("%w: the TTL must be the session's, %v; this claim has %v", driver.ErrRefused, b.o.TTL, req.TTL)
	}
	key := claimKey{req.Name, req.Owner}
	b.mu.Lock()
	c := b.claims[key]
	if c == nil {
		c = b.newClaim(req)
		b.claims[key] = c
	}
	b.mu.Unlock()
	err := b.ready(ctx)
	if err == nil {
		if err = b.checkTimeout(); err != nil {
			b.renegotiate()
		}
	}
	if err == nil {
		err = ctx.Err() // if ctx has ended, the claim may have been abandoned
	}
	if err != nil {
		return nil, c.failed(err)
	}
	return c, nil
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
	if key := (claimKey{c.req.Name, c.req.Owner}); c.b.claims[key] == c {
		delete(c.b.claims, key)
	}
}

// attempt runs f to have the claim of req granted, and classifies its error. ahead is the result of advance.
func (b *Backend) attempt(ctx context.Context, req driver.Request, f func(*claim) (ahead string, err error)) (driver.Lease, error) {
	return inTime(ctx, driver.ErrUnknown, func() (driver.Lease, error) {
		c, err := b.register(ctx, req)
		if err != nil {
			return nil, err
		}
		switch ahead, err := f(c); {
		case err != nil:
			return nil, c.failed(err)
		case ahead != "":
			return nil, &driver.HeldError{}
		}
		return c, nil
	})
}

// TryAcquire implements driver.Backend.
func (b *Backend) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	return b.attempt(ctx, req, func(c *claim) (ahead string, err error) {
		if ahead, err = c.advance(ctx); err == nil && ahead != "" && !req.Queue {
			if err = c.withdraw(); err == nil {
				c.forget()
			}
		}
		return ahead, err
	})
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
				return "", fmt.Errorf("%w: %w: the name's number of permits is %d, not %d", driver.ErrRefused, driver.ErrInvalidOption, other, n)
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
	if b.stale() {
		if err := b.freshen(ctx, c.node()); errors.Is(err, zk.ErrNoNode) {
			return errGone
		} else if err != nil {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.observe()
	switch {
	case c.held:
	case c.abandoned:
		return unknown(errors.New("the claim was abandoned"))
	case c.session != b.session.id: // it ended, or was given up
		return unknown(errSessionEnded)
	case c.czxid <= 0 || c.czxid > driver.MaxToken:
		return fmt.Errorf("%w: the transaction number %d is beyond what a fencing token can hold", driver.ErrRefused, c.czxid)
	default:
		c.timeout = b.timeout()
		c.grant = driver.Grant{Token: uint64(c.czxid), Until: b.session.confirmed.Add(c.timeout), Contended: contended}
		c.held = true
	}
	return nil
}

// withdraw deletes the node of a claim that is not granted. The claim has nothing then.
func (c *claim) withdraw() error {
	path := c.node()
	if err := c.b.delete(path); err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	c.path, c.session, c.czxid = "", 0, 0
	return nil
}

// hasNothing reports whether the server has nothing of the claim, and will get nothing. b.mu is held.
func (c *claim) hasNothing() bool { return c.path == "" && !c.unsure && c.creating == nil }

// failed classifies the error of a claim, and forgets the claim if it certainly has no effect. One that would wait is repeated or abandoned later.
func (c *claim) failed(err error) error {
	if errors.Is(err, errGone) {
		c.forget()
		return unavailable(err)
	}
	c.b.mu.Lock()
	path, nothing := c.path, c.hasNothing()
	c.b.mu.Unlock()
	switch {
	case nothing:
		err = withoutEffect(err)
	case path != "" && errors.Is(err, driver.ErrRefused) && c.withdraw() == nil:
	default:
		return unknown(err)
	}
	if !c.req.Queue {
		c.forget()
	}
	return err
}
