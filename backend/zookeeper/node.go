package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockport/lockport/driver"
)

// inferCzxid takes the claim's token from a list whose first node is the claim's, if no other was created since. The token is then Pzxid, the last
// change below the lock's node: the creation of the claim's node, or a later deletion of an earlier one. Tokens rise: an earlier claim's token is
// from before this creation, since its list had no later node either. Every later claim's node is created after this list.
func (c *claim) inferCzxid(l list) {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	n, _ := numberOf(c.node.Path)
	creations := (int64(l.stat.Cversion) + int64(l.stat.NumChildren)) / 2 // Cversion is creations plus deletions, NumChildren their difference
	if c.node.Czxid == 0 && creations == n+1 {
		c.node.Czxid = l.stat.Pzxid
	}
}

func (c *claim) path() string {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	return c.node.Path
}

// identify finds the session that owns the claim's node, and the transaction that created it.
func (c *claim) identify() error {
	c.b.mu.Lock()
	path, known := c.node.Path, c.node.Session != 0 && c.node.Czxid != 0
	c.b.mu.Unlock()
	if known {
		return nil
	}
	stat, err := call(c.b, false, "read", path, func(conn *zk.Conn) (*zk.Stat, error) {
		exists, stat, err := conn.Exists(path)
		if err == nil && !exists {
			err = zk.ErrNoNode
		}
		return stat, err
	})
	if err != nil {
		return err
	}
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	c.node.Session, c.node.Czxid = stat.EphemeralOwner, stat.Czxid
	return nil
}

// create creates the claim's node and lists the lock's children, in one round trip.
func (c *claim) create(ctx context.Context) (l list, err error) {
	for range 3 { // the server may remove the lock's node, and those above it, while they are empty
		listed := make(chan list, 1)
		go func() { // usually follows the creation on the connection
			l, _ := c.b.list(c.parent)
			listed <- l
		}()
		err := c.createOnce(ctx)
		l := <-listed
		if !errors.Is(err, zk.ErrNoNode) {
			return l, err
		}
		if err := c.b.makePath(c.parent); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return l, err
		}
	}
	return l, unavailable(fmt.Errorf("%s keeps being removed", c.parent))
}

// creation is a request that creates a claim's node.
type creation struct {
	conn     *zk.Conn        // that it was sent on; nil: not known
	underWay <-chan struct{} // closed when it returns; nil: it has returned, and its outcome is unknown
}

func (c *claim) createOnce(ctx context.Context) error {
	b, done := c.b, make(chan struct{})
	now := &creation{underWay: done}
	b.mu.Lock()
	if c.state == ended || ctx.Err() != nil { // a claim is abandoned only after its context has ended
		b.mu.Unlock()
		return unavailable(errors.New("its caller has stopped waiting"))
	}
	c.creation = now
	session := b.session.id
	b.mu.Unlock()
	path, err := call(b, true, "create", c.prefix, func(conn *zk.Conn) (string, error) {
		b.mu.Lock()
		now.conn = conn
		b.mu.Unlock()
		return conn.Create(c.prefix, []byte(c.req.Owner), zk.FlagEphemeralSequential, b.o.ACL)
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	close(done)
	if errors.Is(err, driver.ErrUnknown) {
		now.underWay, b.down = nil, time.Time{} // it may have been sent just now
		return err
	}
	c.creation = nil
	if err == nil {
		c.node.Path = path
		if session == b.session.id { // the session did not change during the request
			c.node.Session = session
		}
	}
	return err
}

// resolveCreation finds, by its GUID, the node whose creation's reply was lost, or makes sure that there is none. A request on the lost
// connection cannot take effect once the session has moved to another: the leader rejects requests from the old one. Nor can it after
// the session has expired. A session that was given up has expired once its timeout has passed since the next one came into use.
// A creation that takes effect before that is found.
func (c *claim) resolveCreation() error {
	b := c.b
	b.mu.Lock()
	unsure, left := c.creation, time.Duration(0)
	if unsure != nil && unsure.conn != nil && unsure.conn != b.conn {
		next := cmp.Or(b.prepared, time.Now()) // when the next session came into use: not before now if it has not yet
		left = time.Until(next.Add(b.timeout() + 2*b.tick))
	}
	b.mu.Unlock()
	switch {
	case unsure == nil:
		return nil
	case left > 0:
		return unknown(fmt.Errorf("its session was given up, and may live for another %v", left.Round(time.Millisecond)))
	}
	err := b.confirm(c.parent)
	var l list
	if err == nil {
		l, err = b.list(c.parent)
	}
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	inOrder(l.children)
	b.mu.Lock()
	defer b.mu.Unlock()
	c.creation = nil
	for _, child := range l.children {
		if path := c.parent + "/" + child; strings.HasPrefix(path, c.prefix) { // the last: an earlier one ends with the session that was given up
			c.node.Path = path
		}
	}
	return nil
}

// withdraw deletes the node of a claim that is not granted. The claim has nothing then.
func (c *claim) withdraw() error {
	path := c.path()
	if err := c.b.delete(path); err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	c.node = Node{}
	return nil
}

// hasNothing reports whether the server has nothing of the claim, and will get nothing. b.mu is held.
func (c *claim) hasNothing() bool { return c.node.Path == "" && c.creation == nil }

// list is a server's view of a lock's node.
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

// makePath creates a container and its missing parents. The server removes a container some time after its last child is gone. So the caller tries
// again if a parent has vanished meanwhile, and a server that always says so is not asked for ever.
func (b *Backend) makePath(path string) error {
	err := b.makeNode(path)
	if errors.Is(err, zk.ErrNoNode) {
		if err = b.makePath(path[:strings.LastIndexByte(path, '/')]); err == nil {
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
