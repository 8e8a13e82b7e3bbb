package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/lockport/lockport/driver"
)

// Inspect implements driver.Inspector. What a foreign client wrote, which for Curator is an address, is followed by its node's name.
func (b *Backend) Inspect(ctx context.Context, name string) (driver.Status, error) {
	if err := b.sync(ctx); err != nil {
		return driver.Status{Name: name}, err
	}
	st, _, err := b.inspect(name)
	return st, err
}

// List implements driver.Inspector. Not seen are locks whose nodes the user may not list.
func (b *Backend) List(ctx context.Context, prefix string) ([]driver.Status, error) {
	if err := b.sync(ctx); err != nil {
		return nil, err
	}
	l, err := b.list(b.root())
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, err
	}
	var all []driver.Status
	for _, node := range l.children {
		name, ok := decodeName(node)
		if !ok || !strings.HasPrefix(name, prefix) || b.o.Chroot == "" && node == "zookeeper" {
			continue
		}
		st, _, err := b.inspect(name)
		if errors.Is(err, zk.ErrNoAuth) {
			continue // another program's, or at least not to be seen by this user
		}
		if err != nil {
			return nil, err
		}
		if st.Held {
			all = append(all, st)
		}
	}
	return all, nil
}

// sync makes the server that we are connected to catch up with the leader.
func (b *Backend) sync(ctx context.Context) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	_, err := call(b, false, "sync", b.root(), func(c *zk.Conn) (string, error) { return c.Sync(b.root()) })
	return err
}

// get returns the data of a node, and the transaction that created it.
func (b *Backend) get(path string) (data string, czxid int64, err error) {
	stat, err := call(b, false, "read", path, func(c *zk.Conn) (*zk.Stat, error) {
		text, stat, err := c.Get(path)
		data = string(text)
		return stat, err
	})
	if err != nil {
		return "", 0, err
	}
	return data, stat.Czxid, nil
}

// root is the path below which the locks are.
func (b *Backend) root() string {
	if b.o.Chroot == "" {
		return "/"
	}
	return b.o.Chroot
}

// inspect returns the status of name, and its holder's node.
func (b *Backend) inspect(name string) (driver.Status, string, error) {
	st := driver.Status{Name: name}
	parent := b.o.Chroot + "/" + encodeName(name)
	for range 10 { // holders may come and go
		l, err := b.list(parent)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return st, "", err
		}
		children := slices.DeleteFunc(l.children, isBehindAll)
		if len(children) == 0 {
			return st, "", nil
		}
		inOrder(children)
		path := parent + "/" + children[0]
		data, czxid, err := b.get(path)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			continue
		case err != nil && !errors.Is(err, zk.ErrNoAuth):
			return st, "", err
		}
		st.Held, st.Waiters = true, len(children)-1
		st.Owner, st.Foreign = data, !strings.HasPrefix(children[0], nodePrefix(data))
		if st.Foreign {
			st.Owner = strings.TrimSpace(fmt.Sprintf("%q", data) + " " + children[0])
		} else {
			st.Token = uint64(czxid)
		}
		return st, path, nil
	}
	return st, "", unavailable(fmt.Errorf("the holder of %s changes too fast to be looked at", parent))
}

// Break implements driver.Breaker.
func (b *Backend) Break(ctx context.Context, name, owner string) error {
	if err := b.sync(ctx); err != nil {
		return err
	}
	st, path, err := b.inspect(name)
	if err != nil {
		return err
	}
	if st.Held && st.Owner == owner {
		if err = b.delete(path); err == nil {
			return nil
		}
	}
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	return fmt.Errorf("%w: that owner no longer has it", driver.ErrLost)
}
