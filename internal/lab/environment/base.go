package environment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/lockport/lockport/internal/lab/servers"
)

// base is servers and how they are run. It lacks what they do not define themselves.
type base struct {
	all []*servers.Server
	// hidden says that clients are not led to the servers themselves, but to the address that front tells, if it is not nil.
	hidden bool
	front  func() string
	url    func(addrs []string) string
	// quorum is that of the servers; nil: none.
	quorum quorum
	// halt ends a server that is restarted; nil: none is. forgets says that it may lose its data meanwhile.
	halt    func(*servers.Server) error
	forgets bool
	// reset undoes faults in servers that run, and waits until they serve.
	reset func(ctx context.Context) error
}

// quorum is what package servers offers of several servers together.
type quorum interface {
	Servers() []*servers.Server
	Leader(ctx context.Context) (int, error)
	CutFromQuorum(i int)
	Heal()
	Close() error
}

func baseOf(url func(addrs []string) string, all ...*servers.Server) base {
	return base{all: all, url: url, reset: func(context.Context) error { return nil }}
}

// clusterOf is the base of the members of a cluster.
func clusterOf(q quorum, url func(addrs []string) string) base {
	b := baseOf(url, q.Servers()...)
	b.quorum = q
	return b
}

func (b *base) Nodes() []*servers.Server {
	if b.hidden {
		return nil
	}
	return b.all
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
	return AtOnce(b.all, (*servers.Server).Close)
}

func (b *base) Log() (all string) {
	for _, s := range b.all {
		all += fmt.Sprintf("--- %s\n%s", s.Addr(), s.Log())
	}
	return all
}

func (b *base) Leader(ctx context.Context) (int, error) {
	if b.quorum == nil {
		return 0, lacks("nobody leads")
	}
	return b.quorum.Leader(ctx)
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
	return AtOnce(up, func(s *servers.Server) error {
		if !keepData {
			if err := s.WipeData(); err != nil {
				return err
			}
		}
		return s.Restart(ctx)
	})
}

// isDown reports whether a server is down. One that is frozen goes on.
func isDown(s *servers.Server) bool { return s.Thaw() != nil }

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
