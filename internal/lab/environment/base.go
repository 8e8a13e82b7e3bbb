package environment

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/lab/worker"
)

// base is the part that all environments share: the servers and how they are run.
type base struct {
	unsupported
	*servers.Set
	url func() string
	// restarts says that Restart restarts the servers, and forgets that it may also lose their data.
	restarts, forgets bool
	// reset undoes faults in servers that serve.
	reset func(ctx context.Context) error
	// open ends at Close: what the holders of Overwrite keep open is closed then.
	open context.Context
	end  context.CancelFunc
}

func baseOf(url func() string, all *servers.Set) base {
	open, end := context.WithCancel(context.Background())
	return base{Set: all, url: url, open: open, end: end, reset: func(context.Context) error { return nil }}
}

func (b *base) Nodes() []*servers.Server { return b.Servers }

func (b *base) URL() string { return b.url() }

func (b *base) Heal(ctx context.Context) error {
	b.Join()
	if err := Revive(ctx, b.Servers...); err != nil {
		return err
	}
	if err := AtOnce(b.Servers, func(s *servers.Server) error { return s.Serves(ctx) }); err != nil {
		return err
	}
	return b.reset(ctx)
}

func (b *base) Close() error {
	b.end()
	return b.Set.Close()
}

// Restart stops all running servers before it starts any of them.
func (b *base) Restart(ctx context.Context, keepData bool) error {
	switch {
	case !b.restarts:
		return cannot("restart the servers")
	case !keepData && !b.forgets:
		return cannot("restart the servers without their data")
	}
	up := slices.DeleteFunc(slices.Clone(b.Servers), isDown)
	if err := AtOnce(up, (*servers.Server).Stop); err != nil {
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

// Revive makes servers run again after any fault. It does so concurrently, since one server may need the others.
func Revive(ctx context.Context, all ...*servers.Server) error {
	return AtOnce(all, func(s *servers.Server) error {
		if !isDown(s) {
			return nil
		}
		return s.Restart(ctx)
	})
}

// AtOnce calls f for all concurrently and returns their errors when all calls have returned.
func AtOnce[M any](all []M, f func(M) error) error {
	return errors.Join(worker.AtOnce(all, func(_ int, one M) error { return f(one) })...)
}

// unsupported has the methods that only some environments offer.
type unsupported struct{}

func cannot(what string) error { return fmt.Errorf("cannot %s: %w", what, errors.ErrUnsupported) }

func (unsupported) Lag(context.Context) error               { return cannot("cut a replication link") }
func (unsupported) FailOver(context.Context) error          { return cannot("fail over") }
func (unsupported) Remove(context.Context, string) error    { return cannot("remove locks") }
func (unsupported) Overwrite(context.Context, string) error { return cannot("overwrite locks") }
func (unsupported) Leftovers(context.Context, string) ([]string, error) {
	return nil, cannot("list leftovers")
}
