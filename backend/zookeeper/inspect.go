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
	l, err := b.live(ctx)
	if err != nil {
		return driver.Status{Name: name}, err
	}
	if err := l.sync(ctx, b.root()); err != nil {
		return driver.Status{Name: name}, err
	}
	st, _, err := b.inspect(ctx, l, name)
	return st, err
}

// List implements driver.Inspector. Not seen are locks whose nodes the user may not list.
func (b *Backend) List(ctx context.Context, prefix string) ([]driver.Status, error) {
	l, err := b.live(ctx)
	if err != nil {
		return nil, err
	}
	if err := l.sync(ctx, b.root()); err != nil {
		return nil, err
	}
	nodes, err := l.list(ctx, b.root())
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, explain(err, "list", b.root())
	}
	var all []driver.Status
	for _, node := range nodes {
		name, ok := decodeName(node)
		if !ok || !strings.HasPrefix(name, prefix) || b.o.Chroot == "" && node == "zookeeper" {
			continue
		}
		st, _, err := b.inspect(ctx, l, name)
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

// root is the path below which the locks are.
func (b *Backend) root() string {
	if b.o.Chroot == "" {
		return "/"
	}
	return b.o.Chroot
}

// inspect returns the status of name, and its holder's node.
func (b *Backend) inspect(ctx context.Context, l *life, name string) (driver.Status, string, error) {
	st := driver.Status{Name: name}
	parent := b.o.Chroot + "/" + encodeName(name)
	for range 10 { // holders may come and go
		children, err := l.list(ctx, parent)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return st, "", explain(err, "list", parent)
		}
		if children = slices.DeleteFunc(children, isBehindAll); len(children) == 0 {
			return st, "", nil
		}
		inOrder(children)
		path := parent + "/" + children[0]
		n, err := l.get(ctx, path)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			continue
		case err != nil && !errors.Is(err, zk.ErrNoAuth):
			return st, "", explain(err, "read", path)
		}
		st.Held, st.Waiters = true, len(children)-1
		st.Owner, st.Foreign = n.data, !strings.HasPrefix(children[0], nodePrefix(n.data))
		if st.Foreign {
			st.Owner = strings.TrimSpace(fmt.Sprintf("%q", n.data) + " " + children[0])
		} else {
			st.Token = uint64(n.czxid)
		}
		return st, path, nil
	}
	return st, "", unavailable(fmt.Errorf("the holder of %s changes too fast to be looked at", parent))
}

// Break implements driver.Breaker.
func (b *Backend) Break(ctx context.Context, name, owner string) error {
	l, err := b.live(ctx)
	if err != nil {
		return err
	}
	if err := l.sync(ctx, b.root()); err != nil {
		return err
	}
	st, path, err := b.inspect(ctx, l, name)
	if err != nil {
		return err
	}
	if st.Held && st.Owner == owner {
		if err = l.delete(ctx, path); err == nil {
			return nil
		}
	}
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return explain(err, "delete", path)
	}
	return fmt.Errorf("%w: that owner no longer has it", driver.ErrLost)
}
