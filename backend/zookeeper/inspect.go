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

// Inspect implements driver.Inspector. A foreign owner is the node's data, for Curator an address, followed by the node's name.
func (b *Backend) Inspect(ctx context.Context, name string) (driver.Status, error) {
	if err := b.sync(ctx); err != nil {
		return driver.Status{Name: name}, err
	}
	st, _, err := b.inspect(driver.Request{Name: name})
	if err == nil && !st.Held {
		st, _, err = b.inspect(driver.Request{Name: name, Permits: 1})
	}
	return st, err
}

// List implements driver.Inspector. It omits locks whose nodes the user may not list.
func (b *Backend) List(ctx context.Context, prefix string) ([]driver.Status, error) {
	if err := b.sync(ctx); err != nil {
		return nil, err
	}
	l, err := b.list(b.root())
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, withoutEffect(err)
	}
	var all []driver.Status
	for _, node := range l.children {
		lock, permits := strings.CutSuffix(node, permitsSuffix)
		name, ok := decodeName(lock)
		if !ok || !strings.HasPrefix(name, prefix) {
			continue
		}
		req := driver.Request{Name: name}
		if permits {
			req.Permits = 1
		}
		st, _, err := b.inspect(req)
		if errors.Is(err, zk.ErrNoAuth) {
			continue // another program's, or hidden from this user
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

// sync makes the connected server catch up with the leader.
func (b *Backend) sync(ctx context.Context) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	_, err := call(b, false, "sync", b.root(), func(c *zk.Conn) (string, error) { return c.Sync(b.root()) })
	return withoutEffect(err)
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

// root is the path that contains the locks.
func (b *Backend) root() string {
	if b.o.Chroot == "" {
		return "/"
	}
	return b.o.Chroot
}

// inspect returns the status of the lock of req's name, or of its permits, and the holders' nodes.
func (b *Backend) inspect(req driver.Request) (driver.Status, []string, error) {
	st := driver.Status{Name: req.Name}
	parent := b.o.Chroot + "/" + parentName(req)
	for range 10 { // holders may come and go
		l, err := b.list(parent)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return st, nil, withoutEffect(err)
		}
		children := slices.DeleteFunc(l.children, sortsLast)
		if len(children) == 0 {
			return driver.Status{Name: req.Name}, nil, nil // st may have a holder that has gone since
		}
		inOrder(children)
		holders := slices.Clone(children[:holdersOf(children)])
		for i, child := range holders {
			var h driver.Status
			if h, err = b.holder(parent, child); err != nil {
				break
			}
			if h.Name = req.Name; i == 0 {
				st = h
			} else {
				st.Others = append(st.Others, h)
			}
			holders[i] = parent + "/" + child
		}
		if err == nil {
			st.Waiters = len(children) - len(holders)
			return st, holders, nil
		}
		if !errors.Is(err, zk.ErrNoNode) {
			return st, nil, withoutEffect(err)
		}
	}
	return st, nil, unavailable(fmt.Errorf("the holder of %s changes too fast to inspect", parent))
}

// holder returns the status of the holder whose node is child.
func (b *Backend) holder(parent, child string) (driver.Status, error) {
	data, czxid, err := b.get(parent + "/" + child)
	if err != nil && !errors.Is(err, zk.ErrNoAuth) {
		return driver.Status{}, err
	}
	mode := modeOfNode(child)
	st := driver.Status{Held: true, Owner: data, Token: uint64(czxid), Shared: mode == readMode, Permits: permitsOf(mode)}
	if st.Foreign = !strings.HasPrefix(child, ownerPrefix(data)); st.Foreign {
		st.Owner, st.Token = strings.TrimSpace(fmt.Sprintf("%q", data)+" "+child), 0
	}
	return st, nil
}

// Break implements driver.Breaker.
func (b *Backend) Break(ctx context.Context, name, owner string) error {
	if err := b.sync(ctx); err != nil {
		return err
	}
	for _, permits := range []int{0, 1} {
		st, paths, err := b.inspect(driver.Request{Name: name, Permits: permits})
		if err != nil {
			return err
		}
		for i, h := range append([]driver.Status{st}, st.Others...) {
			if !h.Held || h.Owner != owner {
				continue
			}
			if err = b.delete(paths[i]); !errors.Is(err, zk.ErrNoNode) {
				return err
			}
		}
	}
	return fmt.Errorf("%w: that owner no longer holds it", driver.ErrLost)
}
