package environment

import (
	"context"
	"errors"

	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/lab/worker"
)

// Revive makes servers run again after any fault. It does so concurrently, since one server may need the others.
func Revive(ctx context.Context, all ...*servers.Server) error {
	return AtOnce(all, func(s *servers.Server) error {
		if s.Thaw() == nil { // it runs now
			return nil
		}
		return s.Restart(ctx)
	})
}

// serve waits until each node of a quorum answers ask.
func serve[N any](ctx context.Context, nodes []N, ask func(context.Context, N) error) error {
	return AtOnce(nodes, func(n N) error {
		return servers.Poll(ctx, func(ctx context.Context) error { return ask(ctx, n) })
	})
}

// inOrder calls steps one after the other, until one fails.
func inOrder(ctx context.Context, steps ...func(ctx context.Context) error) error {
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// now makes a step of a function without a context.
func now(f func() error) func(context.Context) error {
	return func(context.Context) error { return f() }
}

// running makes a step that revives servers.
func running(all ...*servers.Server) func(context.Context) error {
	return func(ctx context.Context) error { return Revive(ctx, all...) }
}

// AtOnce calls f for all concurrently and returns their errors when all calls have returned.
func AtOnce[M any](all []M, f func(M) error) error {
	return errors.Join(worker.AtOnce(all, func(_ int, one M) error { return f(one) })...)
}
