package environment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// base is servers and how they are run. It lacks what they do not define themselves.
type base struct {
	all []server
	// hidden says that clients are not led to the servers themselves, but to the address that front tells, if it is not nil.
	hidden bool
	front  func() string
	url    func(addrs []string) string
	// quorum is that of the servers, and leader the one that leads; nil: none.
	quorum quorum
	leader func(ctx context.Context) (Node, error)
	// halt ends a server that is restarted; nil: none is. forgets says that it may lose its data meanwhile.
	halt    func(server) error
	forgets bool
	// reset undoes faults in servers that run, and waits until they serve.
	reset func(ctx context.Context) error
}

// server is what every server offers.
type server interface {
	Node
	Dir() string
	WipeData() error
	Close() error
	Log() string
}

func baseOf[N server](url func(addrs []string) string, all ...N) base {
	b := base{url: url, reset: func(context.Context) error { return nil }}
	for _, one := range all {
		b.all = append(b.all, one)
	}
	return b
}

// quorum and cluster are what package servers offers of several servers together.
type quorum interface {
	CutFromQuorum(i int)
	Heal()
	Close() error
}

type cluster[N server] interface {
	quorum
	Leader(ctx context.Context) (N, error)
}

// clusterOf is the base of the members of a cluster.
func clusterOf[N server](c cluster[N], url func(addrs []string) string, all []N) base {
	b := baseOf(url, all...)
	b.quorum = c
	b.leader = func(ctx context.Context) (Node, error) { return c.Leader(ctx) }
	return b
}

func (b *base) Nodes() (all []Node) {
	for _, s := range b.all {
		if !b.hidden {
			all = append(all, s)
		}
	}
	return all
}

func (b *base) Addrs() (all []string) {
	if b.front != nil {
		return []string{b.front()}
	}
	for _, n := range b.Nodes() {
		all = append(all, n.Addr())
	}
	return all
}

func (b *base) URL(addrs []string) string { return b.url(addrs) }

// CutFromQuorum cuts a member of a cluster from the others.
func (b *base) CutFromQuorum(i int) { b.quorum.CutFromQuorum(i) }

// Join ends all cuts.
func (b *base) Join() {
	if b.quorum != nil {
		b.quorum.Heal()
	}
}

func (b *base) Heal(ctx context.Context) error {
	b.Join()
	return inOrder(ctx, running(b.all...), b.reset)
}

func (b *base) Close() error {
	if b.quorum != nil {
		return b.quorum.Close()
	}
	return AtOnce(b.all, server.Close)
}

func (b *base) Log() (all string) {
	for _, s := range b.all {
		all += fmt.Sprintf("--- %s\n%s", s.Addr(), s.Log())
	}
	return all
}

func (b *base) Leader(ctx context.Context) (int, error) {
	if b.leader == nil {
		return 0, lacks("nobody leads")
	}
	leader, err := b.leader(ctx)
	return slices.Index(b.Nodes(), leader), err
}

// Restart has all be down at the same moment.
func (b *base) Restart(ctx context.Context, keepData bool) error {
	switch {
	case b.halt == nil:
		return lacks("nothing is restarted")
	case !keepData && !b.forgets:
		return lacks("nothing is restarted without its data")
	}
	up := slices.DeleteFunc(slices.Clone(b.all), isDown)
	if err := AtOnce(up, b.halt); err != nil {
		return err
	}
	return AtOnce(up, func(s server) error {
		if !keepData {
			if err := s.WipeData(); err != nil {
				return err
			}
		}
		return s.Restart(ctx)
	})
}

// isDown reports whether a server is down. One that is frozen goes on.
func isDown(s server) bool { return s.Thaw() != nil }

// LoseDisk keeps the disk: etcd does not let a member back in that has forgotten everything.
func (b *base) LoseDisk(ctx context.Context, i int) (back bool, err error) {
	if b.quorum == nil {
		return false, lacks("no disk can be lost")
	}
	s := b.all[i]
	disk := filepath.Join(s.Dir(), "data")
	kept := disk + ".kept"
	if err := inOrder(ctx, now(s.Kill), now(func() error { return os.Rename(disk, kept) }), now(s.WipeData)); err != nil {
		return false, err
	}
	if s.Restart(ctx) == nil {
		return true, os.RemoveAll(kept)
	}
	return false, errors.Join(s.Kill(), os.RemoveAll(disk), os.Rename(kept, disk))
}

func lacks(ability string) error { return fmt.Errorf("%s: %w", ability, errors.ErrUnsupported) }

func (*base) Lag(context.Context) error               { return lacks("no link between servers can be cut") }
func (*base) FailOver(context.Context) error          { return lacks("nothing takes the server's place") }
func (*base) Remove(context.Context, string) error    { return lacks("no operator removes locks") }
func (*base) Overwrite(context.Context, string) error { return lacks("nobody else takes locks") }
func (*base) Leftovers(context.Context, string) ([]string, error) {
	return nil, lacks("what is left cannot be listed")
}
