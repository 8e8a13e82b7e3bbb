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

// base is the part that all environments share: the servers and how they are run. It reports as unsupported what only some environments offer.
type base struct {
	all []*servers.Server
	// hidden says that Nodes returns none.
	hidden bool
	url    func() string
	// quorum is nil if the servers form none.
	quorum quorum
	// halt stops a server for Restart; nil: servers are not restarted. forgets says that a restart may also lose the data.
	halt    func(*servers.Server) error
	forgets bool
	// reset undoes faults in running servers and waits until they serve.
	reset func(ctx context.Context) error
	// open ends at Close: what the holders of Overwrite keep open is closed then.
	open context.Context
	end  context.CancelFunc
}

// quorum is the interface of package servers to clusters and ensembles.
type quorum interface {
	Servers() []*servers.Server
	Leader(ctx context.Context) (int, error)
	CutFromQuorum(i int)
	Heal()
	Close() error
}

func baseOf(url func() string, all ...*servers.Server) base {
	open, end := context.WithCancel(context.Background())
	return base{all: all, url: url, open: open, end: end, reset: func(context.Context) error { return nil }}
}

// clusterOf returns the base of a cluster's members.
func clusterOf(q quorum, url func() string) base {
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

func (b *base) URL() string { return b.url() }

// CutFromQuorum cuts a member of a cluster from the other members.
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
	b.end()
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
		return 0, cannot("name a leader")
	}
	return b.quorum.Leader(ctx)
}

// Restart stops all running servers before it starts any of them.
func (b *base) Restart(ctx context.Context, keepData bool) error {
	switch {
	case b.halt == nil:
		return cannot("restart the servers")
	case !keepData && !b.forgets:
		return cannot("restart the servers without their data")
	}
	up := slices.DeleteFunc(slices.Clone(b.all), isDown)
	if err := AtOnce(up, b.halt); err != nil {
		return err
	}
	restart := (*servers.Server).Restart
	if !keepData {
		restart = (*servers.Server).RestartEmpty
	}
	return AtOnce(up, func(s *servers.Server) error { return restart(s, ctx) })
}

// isDown reports whether a server is down. It thaws a frozen one.
func isDown(s *servers.Server) bool { return s.Thaw() != nil }

// LoseDisk keeps the old disk, since etcd does not readmit a member that lost its data.
func (b *base) LoseDisk(ctx context.Context, i int) (back bool, err error) {
	if b.quorum == nil {
		return false, cannot("lose a disk")
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

func cannot(what string) error { return fmt.Errorf("cannot %s: %w", what, errors.ErrUnsupported) }

func (*base) Lag(context.Context) error               { return cannot("cut a replication link") }
func (*base) FailOver(context.Context) error          { return cannot("fail over") }
func (*base) Remove(context.Context, string) error    { return cannot("remove locks") }
func (*base) Overwrite(context.Context, string) error { return cannot("overwrite locks") }
func (*base) Leftovers(context.Context, string) ([]string, error) {
	return nil, cannot("list leftovers")
}
