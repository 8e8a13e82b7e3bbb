package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockport/lockport/driver"
)

// claim is one claim, and its lease once it is granted.
type claim struct {
	b      *Backend
	req    driver.Request
	parent string // the path of the lock
	prefix string // that of its node, before the sequence number

	// b.mu guards these.
	abandoned bool
	creating  chan struct{} // closed when the creation under way has returned; nil: there is none
	unsure    bool          // a creation was sent whose outcome is not known
	conn      *zk.Conn      // on which the last creation was sent
	path      string        // of its node; "": not known, or there is none
	session   int64         // that owns the node; 0: not known
	czxid     int64         // the transaction that created it; 0: not known
	ahead     string        // what it waited for when the lock was listed last: see waitsFor; "": nothing, or not known
	watch     <-chan zk.Event
	grant     driver.Grant
}

type claimKey struct{ name, owner string }

// errGone is why a claim that waited has to begin anew.
var errGone = errors.New("its node was deleted")

// enter returns the claim of req, which it makes if there is none.
func (b *Backend) enter(ctx context.Context, req driver.Request) (*claim, error) {
	if req.TTL != b.o.TTL {
		return nil, fmt.Errorf("%w: the TTL is that of the session, %v; this claim asks for %v", driver.ErrRefused, b.o.TTL, req.TTL)
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
		err = ctx.Err() // if that has ended, it may have been abandoned meanwhile
	}
	if err != nil {
		return nil, c.failed(err)
	}
	return c, nil
}

// newClaim makes a claim that nobody knows yet.
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

// attempt has the claim of req granted by f, or gives the error its class.
func (b *Backend) attempt(ctx context.Context, req driver.Request, f func(*claim) (granted bool, err error)) (driver.Lease, error) {
	return inTime(ctx, driver.ErrUnknown, func() (driver.Lease, error) {
		c, err := b.enter(ctx, req)
		if err != nil {
			return nil, err
		}
		switch granted, err := f(c); {
		case granted:
			return c, nil
		case err != nil:
			return nil, c.failed(err)
		}
		return nil, &driver.HeldError{}
	})
}

// TryAcquire implements driver.Backend.
func (b *Backend) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	return b.attempt(ctx, req, func(c *claim) (granted bool, err error) {
		if granted, err = c.advance(ctx); err == nil && !granted && !req.Queue {
			err = c.withdraw()
		}
		return granted, err
	})
}

// advance makes sure that the claim has a node, and grants it the lock if nothing is in its way. Otherwise it notes what is.
func (c *claim) advance(ctx context.Context) (granted bool, err error) {
	children, at, err := c.place(ctx)
	if err != nil {
		return false, err
	}
	ahead, err := c.waitsFor(children, at)
	if err != nil {
		return false, err
	}
	if ahead == "" {
		err = c.win(ctx, c.keepsOut(children))
		return err == nil, err
	}
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	c.ahead = ahead
	return false, nil
}

// waitsFor returns what is in the way of the claim, whose node is children[at]: the node ahead, for a reader the last writer's ahead, and for a permit, where any of
// the holders may go first, the node that has them all. "": nothing. Whoever has a lower number was created before, so that the server which shows
// our node has seen all of them.
func (c *claim) waitsFor(children []string, at int) (path string, err error) {
	if n := c.req.Permits; n > 0 {
		for _, child := range children[:at] {
			if other := permitsOf(modeOfNode(child)); other > 0 && other != n {
				return "", fmt.Errorf("%w: %w: the name has %d permits, not %d", driver.ErrRefused, driver.ErrInvalidOption, other, n)
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

// keepsOut says whether the claim, which is granted, keeps any of children out.
func (c *claim) keepsOut(children []string) bool {
	switch {
	case c.req.Permits > 0:
		return len(children) > c.req.Permits
	case c.req.Shared:
		return slices.ContainsFunc(children, func(child string) bool { return modeOfNode(child) != readMode })
	}
	return len(children) > 1
}

// place makes sure that the claim has a node, and returns the lock's children in order, and which of them is the claim's. Across a lost
// connection it asks again.
func (c *claim) place(ctx context.Context) (children []string, at int, err error) {
	for {
		if children, at, err = c.placeOnce(ctx); !errors.Is(err, errNoAnswer) || ctx.Err() != nil {
			return children, at, err
		}
		pause(ctx, ridePause)
	}
}

func (c *claim) placeOnce(ctx context.Context) (children []string, at int, err error) {
	if err := c.findAgain(); err != nil {
		return nil, 0, err
	}
	var l list
	if c.node() == "" {
		if l, err = c.create(ctx); err != nil {
			return nil, 0, err
		}
	}
	own := base(c.node())
	if !slices.Contains(l.children, own) { // it was not asked for, or has overtaken the creation
		l, err = c.b.list(c.parent)
	}
	if errors.Is(err, zk.ErrNoNode) {
		err = errGone
	}
	if err != nil {
		return nil, 0, err
	}
	inOrder(l.children)
	switch at = slices.Index(l.children, own); {
	case at < 0:
		err = errGone
	case at == 0:
		c.deduce(l)
	}
	return l.children, at, err
}

// deduce finds the transaction that created the claim's node in a list, if that is certain. The claim's node is the only one, and no other was created since
// our last one, which was deleted before, or ever. So its creation is the last thing that has happened to the lock's node. (If that was made anew, and counts
// anew, the transaction may be a later one. Tokens rise all the same: whoever comes is created after it.)
func (c *claim) deduce(l list) {
	b := c.b
	b.mu.Lock()
	defer b.mu.Unlock()
	n, ok := numberOf(c.path)
	last, known := b.released.Get(c.parent)
	if !known {
		last = -1
	}
	creations := (int64(l.stat.Cversion) + int64(l.stat.NumChildren)) / 2 // a server shows creations and deletions as one number
	if c.czxid == 0 && ok && n == last+1 && creations == n+1 && len(l.children) == 1 && c.session != 0 {
		c.czxid = l.stat.Pzxid
	}
}

func (c *claim) node() string {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	return c.path
}

// identify finds out which session owns the claim's node, and which transaction created it.
func (c *claim) identify() error {
	c.b.mu.Lock()
	path, known := c.path, c.session != 0 && c.czxid != 0
	c.b.mu.Unlock()
	if known {
		return nil
	}
	stat, err := call(c.b, false, "read", path, func(conn *zk.Conn) (*zk.Stat, error) {
		exists, stat, err := conn.Exists(path)
		if err == nil && !exists {
			err = errGone
		}
		return stat, err
	})
	if err != nil {
		return err
	}
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	c.session, c.czxid = stat.EphemeralOwner, stat.Czxid
	return nil
}

// create creates the claim's node and lists the lock's children, in one round trip.
func (c *claim) create(ctx context.Context) (l list, err error) {
	for range 3 { // the lock's own node, and those above it, may be removed meanwhile, when they are empty
		listed := make(chan list, 1)
		go func() { // it follows the creation on the connection, as a rule
			l, _ := c.b.list(c.parent)
			listed <- l
		}()
		err := c.createOnce(ctx)
		l := <-listed
		if !errors.Is(err, zk.ErrNoNode) {
			if err == nil && usedUp(c.node()) {
				err = fmt.Errorf("%w: the sequence numbers below %s are used up; delete that node when nobody has the lock", driver.ErrRefused, c.parent)
			}
			return l, err
		}
		if err := c.b.makePath(c.parent); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return l, err
		}
	}
	return l, unavailable(fmt.Errorf("%s is removed again and again", c.parent))
}

func (c *claim) createOnce(ctx context.Context) error {
	b, done := c.b, make(chan struct{})
	b.mu.Lock()
	if c.abandoned || ctx.Err() != nil { // before it was abandoned, its context has ended
		b.mu.Unlock()
		return unavailable(errors.New("nobody waits for it any more"))
	}
	c.creating, c.conn = done, b.conn
	session := b.session.id
	b.mu.Unlock()
	path, err := call(b, true, "create", c.prefix, func(conn *zk.Conn) (string, error) {
		return conn.Create(c.prefix, []byte(c.req.Owner), zk.FlagEphemeralSequential, b.o.ACL)
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err == nil:
		c.path = path
		if session == b.session.id { // it was the same all the time
			c.session = session
		}
	case errors.Is(err, driver.ErrUnknown):
		c.unsure = true
	}
	c.creating = nil
	close(done)
	return err
}

// findAgain finds the node whose creation's reply was lost, by its GUID, or makes sure that there is none. What was sent on the lost
// connection cannot be carried out any more once the session has moved to another: the leader turns away what comes by the old way. Nor can it be once
// the session has expired. A session that was given up has expired when its timeout has passed since the server serves the next one; a creation that
// the server carries out before that shows.
func (c *claim) findAgain() error {
	b := c.b
	b.mu.Lock()
	unsure, left := c.unsure, time.Duration(0)
	if c.conn != nil && c.conn != b.conn {
		left = time.Until(b.prepared.Add(b.timeout() + 2*b.tick))
	}
	b.mu.Unlock()
	switch {
	case !unsure:
		return nil
	case left > 0:
		return unknown(fmt.Errorf("its session was given up, and may live for another %v", left.Round(time.Millisecond)))
	}
	found, err := b.findNode(c.parent, base(c.prefix))
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c.unsure, c.path = false, found
	return nil
}

// findNode returns the path of the child of parent that begins with prefix, or "" if a quorum says that there is none.
func (b *Backend) findNode(parent, prefix string) (string, error) {
	err := b.confirm(parent)
	var l list
	if err == nil {
		l, err = b.list(parent)
	}
	if errors.Is(err, zk.ErrNoNode) {
		return "", nil
	}
	if i := slices.IndexFunc(l.children, func(child string) bool { return strings.HasPrefix(child, prefix) }); err == nil && i >= 0 {
		return parent + "/" + l.children[i], nil
	}
	return "", err
}

// win makes a claim that nothing is in the way of a lease.
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
	case b.holds(c):
	case c.abandoned:
		return unknown(errors.New("the claim was abandoned"))
	case c.session != b.session.id: // it has ended, or was given up
		return unknown(errSessionEnded)
	case c.czxid <= 0 || c.czxid > driver.MaxToken:
		return fmt.Errorf("%w: the transaction number %d is beyond what a fencing token can hold", driver.ErrRefused, c.czxid)
	default:
		c.grant = driver.Grant{Token: uint64(c.czxid), Until: b.until(), Contended: contended}
		b.hold(c)
	}
	return nil
}

// withdraw deletes the node of a claim that is not granted.
func (c *claim) withdraw() error {
	path := c.node()
	if err := c.b.delete(path); err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	c.forget()
	return nil
}

// failed gives the error of a claim its class, and forgets the claim where it certainly has no effect.
func (c *claim) failed(err error) error {
	if errors.Is(err, errGone) {
		c.forget()
		return unavailable(err)
	}
	c.b.mu.Lock()
	path, clean := c.path, c.path == "" && !c.unsure && c.creating == nil
	c.b.mu.Unlock()
	switch {
	case clean:
		c.forget()
		return withoutEffect(err)
	case path != "" && errors.Is(err, driver.ErrRefused) && c.withdraw() == nil:
		return err
	}
	return unknown(err)
}

// list is what a server says of a lock's node.
type list struct {
	children []string
	stat     *zk.Stat
}

func (b *Backend) list(path string) (list, error) {
	return call(b, false, "list", path, func(c *zk.Conn) (list, error) {
		children, stat, err := c.Children(path)
		return list{children, stat}, err
	})
}

func (b *Backend) delete(path string) error {
	_, err := call(b, true, "delete", path, func(c *zk.Conn) (any, error) { return nil, c.Delete(path, -1) })
	return err
}

// makePath creates a container, which the server removes some time after its last child has gone, and those above it where they are missing.
func (b *Backend) makePath(path string) error {
	err := b.makeNode(path)
	if above := path[:strings.LastIndexByte(path, '/')]; errors.Is(err, zk.ErrNoNode) && above != "" {
		if err = b.makePath(above); err == nil {
			err = b.makeNode(path)
		}
	}
	return err
}

func (b *Backend) makeNode(path string) error {
	b.containers.RLock()
	defer b.containers.RUnlock()
	_, err := call(b, true, "create", path, func(c *zk.Conn) (string, error) {
		return c.CreateContainer(path, nil, zk.FlagContainer, b.o.ACL)
	})
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}
