package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/lockport/lockport/driver"
)

// claim is one claim, and its lease once it is granted. It belongs to one life.
type claim struct {
	b      *Backend
	l      *life
	req    driver.Request
	parent string // the path of the lock
	prefix string // that of its node, before the sequence number

	mu        sync.Mutex
	wake      chan struct{} // has an element when there is a reason to look again; nil: it has never waited
	state     state
	path      string   // of its node; "": not known
	czxid     int64    // of its node; 0: not known
	creating  *pending // the creation under way; nil: there is none
	unsure    bool     // a creation was sent whose reply was lost
	abandoned bool
	watched   bool // its node, on behalf of the holder
	grant     driver.Grant
	cause     error // of the loss
}

// state is what became of a claim.
type state int

const (
	waiting   state = iota // or being made
	held                   // granted
	releasing              // being released, maybe in vain
	released
	lost
)

type claimKey struct{ name, owner string }

func (c *claim) key() claimKey { return claimKey{c.req.Name, c.req.Owner} }

// enter returns the claim of req, which it makes if there is none, on a life that is attached.
func (b *Backend) enter(ctx context.Context, req driver.Request) (*claim, error) {
	if req.TTL != b.o.TTL {
		return nil, fmt.Errorf("%w: the TTL is that of the session, %v; this claim asks for %v", driver.ErrRefused, b.o.TTL, req.TTL)
	}
	if b.known(claimKey{req.Name, req.Owner}) == nil {
		if _, err := b.live(ctx); err != nil {
			return nil, err
		}
	}
	l, err := b.current()
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	key := claimKey{req.Name, req.Owner}
	if c := b.claims[key]; c != nil && c.l == l {
		return c, nil
	}
	c := b.newClaim(l, req)
	b.claims[key] = c
	return c, nil
}

// newClaim makes a claim on l that nobody knows yet.
func (b *Backend) newClaim(l *life, req driver.Request) *claim {
	parent := b.o.Chroot + "/" + encodeName(req.Name)
	prefix := parent + "/" + nodePrefix(req.Owner)
	return &claim{b: b, l: l, req: req, parent: prefix[:len(parent)], prefix: prefix}
}

func (b *Backend) known(key claimKey) *claim {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.claims[key]
}

// forget drops a claim that has ended.
func (c *claim) forget() {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	if c.b.claims[c.key()] == c {
		delete(c.b.claims, c.key())
	}
}

// TryAcquire implements driver.Backend, in two requests that are sent together.
func (b *Backend) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	c, err := b.enter(ctx, req)
	if err != nil {
		return nil, err
	}
	if c.isHeld() {
		return c, nil
	}
	p, err := c.place(ctx)
	if err == nil && p.at == 0 {
		err = c.assure(ctx, p, nil)
	}
	switch {
	case err != nil:
		return nil, c.failed(ctx, err)
	case p.at == 0:
		return c.win(ctx, p)
	case !req.Queue:
		if err := c.withdraw(ctx); err != nil {
			return nil, unknown(certainly{err})
		}
	}
	return nil, &driver.HeldError{}
}

func (c *claim) isHeld() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state == held
}

// place is where a claim stands.
type place struct {
	children []string // of the lock, in order
	at       int      // which of them is the claim's
	fresh    bool     // it was created just now
}

// place makes sure that the claim has a node and looks where it stands. Across a lost connection it asks again.
func (c *claim) place(ctx context.Context) (place, error) {
	for {
		p, err := c.placeOnce(ctx)
		if !connectionLost(err) || ctx.Err() != nil || c.l.ended() != nil {
			return p, err
		}
	}
}

func (c *claim) placeOnce(ctx context.Context) (p place, err error) {
	if err := c.findAgain(ctx); err != nil {
		return p, err
	}
	if c.node() == "" {
		p.fresh = true
		p.children, err = c.create(ctx)
	}
	path := c.node()
	if err == nil && !slices.Contains(p.children, base(path)) { // the list may have been made before the node
		p.children, err = c.l.list(ctx, c.parent)
	}
	if errors.Is(err, zk.ErrNoNode) {
		err = errGone
	}
	if err != nil {
		return p, err
	}
	inOrder(p.children)
	if p.at = slices.Index(p.children, base(path)); p.at < 0 {
		return p, errGone
	}
	return p, nil
}

func (c *claim) node() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.path
}

// create creates the claim's node and returns the children of the lock, for which it asks without waiting for the node.
func (c *claim) create(ctx context.Context) ([]string, error) {
	for range 3 { // the lock's own node may be removed meanwhile, when it is empty
		children, err := c.createOnce(ctx)
		if !errors.Is(err, zk.ErrNoNode) {
			return children, err
		}
		if err := c.b.makePath(ctx, c.l, c.parent); err != nil {
			return nil, err
		}
	}
	return nil, unavailable(fmt.Errorf("%s is removed again and again", c.parent))
}

func (c *claim) createOnce(ctx context.Context) ([]string, error) {
	t, err := c.l.await(ctx)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	if c.abandoned {
		c.mu.Unlock()
		return nil, unknown(errors.New("the claim was abandoned"))
	}
	frames := append(make([]frame, 0, 3), createFrame(opCreate, c.prefix, c.req.Owner, c.b.o.ACL, zk.FlagEphemeralSequential))
	list, watch := t.expects(c.parent)
	if list {
		frames = append(frames, listFrame(c.parent))
	}
	if watch {
		frames = append(frames, watchFrame(c.parent))
	}
	sent := t.send(frames...)
	c.creating = sent[0]
	c.mu.Unlock()
	if list {
		_ = sent[1].wait(ctx) // first, since it is answered last as a rule: then this goroutine is woken once
	}
	err = sent[0].wait(ctx)
	c.settle()
	if err != nil {
		return nil, err
	}
	path := c.node()
	if usedUp(path) {
		return nil, fmt.Errorf("%w: the sequence numbers below %s are used up; delete that node when nobody has the lock", driver.ErrRefused, c.parent)
	}
	var children []string
	switch {
	case list:
		if err = sent[1].wait(ctx); err == nil {
			children, err = sent[1].children()
		}
	case t.follows(c.parent, path):
		return []string{base(path)}, nil
	default:
		children, err = c.l.list(ctx, c.parent)
	}
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil // it was made before the node, when the creation had to be sent once more
	} else if err != nil {
		return nil, err
	}
	t.listed(c.parent, path, len(children) == 1 && children[0] == base(path))
	return children, nil
}

// settle notes what became of the creation of the claim's node, if that is known.
func (c *claim) settle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.creating
	if p == nil {
		return
	}
	select {
	case <-p.done:
	default:
		return
	}
	c.creating = nil
	switch {
	case p.err == nil: // the session is that of the connection, and the transaction the one that created it
		b := p.body
		c.path, c.czxid = b.string(), p.zxid
		c.unsure = b.bad
	case connectionLost(p.err) && !p.sent.IsZero():
		c.unsure = true
	}
}

// findAgain finds the node whose creation's reply was lost, by its GUID, or makes sure that there is none. What was sent on the lost
// connection cannot be carried out any more once the session has moved to another: the leader turns away what comes by the old way.
func (c *claim) findAgain(ctx context.Context) error {
	c.mu.Lock()
	unsure := c.unsure
	c.mu.Unlock()
	if !unsure {
		return nil
	}
	found, err := c.l.findNode(ctx, c.parent, base(c.prefix))
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unsure = false
	c.path = found
	return nil
}

// findNode returns the path of the child of parent that begins with prefix, or "" if a quorum says that there is none.
func (l *life) findNode(ctx context.Context, parent, prefix string) (string, error) {
	err := l.confirm(ctx, parent)
	if errors.Is(err, zk.ErrNoNode) {
		return "", nil
	}
	var children []string
	if err == nil {
		children, err = l.list(ctx, parent)
	}
	if errors.Is(err, zk.ErrNoNode) {
		return "", nil
	}
	if child := find(children, prefix); err == nil && child != "" {
		return parent + "/" + child, nil
	}
	return "", err
}

// win makes a claim that is the first one a lease.
func (c *claim) win(ctx context.Context, p place) (driver.Lease, error) {
	c.mu.Lock()
	czxid, path := c.czxid, c.path
	c.mu.Unlock()
	if czxid == 0 {
		n, err := c.l.get(ctx, path)
		if err != nil || n.owner != c.l.id() {
			if err == nil || errors.Is(err, zk.ErrNoNode) {
				err = errGone
			}
			return nil, c.failed(ctx, err)
		}
		czxid = n.czxid
	}
	if czxid <= 0 || czxid > driver.MaxToken {
		return nil, c.failed(ctx, fmt.Errorf("%w: the transaction number %d is beyond what a fencing token can hold", driver.ErrRefused, czxid))
	}
	c.mu.Lock()
	if c.abandoned {
		c.mu.Unlock()
		return nil, unknown(errors.New("the claim was abandoned"))
	}
	c.czxid = czxid
	c.grant = driver.Grant{Token: uint64(czxid), Until: c.l.until(), Contended: len(p.children) > 1}
	c.state = held
	c.mu.Unlock()
	if !c.l.keep(c) {
		return nil, c.failed(ctx, c.l.ended())
	}
	return c, nil
}

// id is the session's.
func (l *life) id() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session
}

// withdraw deletes the node of a claim that is not granted.
func (c *claim) withdraw(ctx context.Context) error {
	err := c.l.delete(ctx, c.node())
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return explain(err, "delete", c.node())
	}
	c.forget()
	return nil
}

// failed gives the error of a claim its class, and forgets the claim where it certainly has no effect.
func (c *claim) failed(ctx context.Context, err error) error {
	if reason := c.l.ended(); reason != nil {
		if c.isClean() || c.l.isGone() {
			c.forget()
			return reason
		}
		return unknown(certainly{reason})
	}
	if errors.Is(err, errGone) {
		c.forget()
		return unavailable(err)
	}
	err = explain(err, "create and list nodes below", c.parent)
	switch {
	case c.isClean():
		c.forget()
		if errors.Is(err, driver.ErrUnknown) && !oneOf(err, driver.ErrUnavailable, driver.ErrRefused) {
			return fmt.Errorf("%w: %w", driver.ErrUnavailable, certainly{err})
		}
		return err
	case c.node() != "" && errors.Is(err, driver.ErrRefused) && c.withdraw(ctx) == nil:
		return err
	}
	return fmt.Errorf("%w: %w", driver.ErrUnknown, certainly{err})
}

// isClean says that nothing of the claim can be at a server.
func (c *claim) isClean() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.path == "" && !c.unsure && c.creating == nil
}

// certainly is an error without its class, for where more is certain of it, or less, than that says.
type certainly struct{ error }

// Unwrap keeps what is not a class.
func (e certainly) Unwrap() error {
	switch {
	case errors.Is(e.error, context.Canceled):
		return context.Canceled
	case errors.Is(e.error, context.DeadlineExceeded):
		return context.DeadlineExceeded
	}
	return nil
}
