package environment

import (
	"context"
	"errors"
	"time"

	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/lab/worker"
)

// Node is one server. Safe for concurrent use.
type Node interface {
	// Addr is where it listens.
	Addr() string
	// Kill ends it with SIGKILL, Stop in order, and Restart starts it again, after Stop if it runs, with what it has kept.
	Kill() error
	Stop() error
	Restart(ctx context.Context) error
	// Freeze stops it with SIGSTOP, and Thaw lets it go on.
	Freeze() error
	Thaw() error
}

// Revive makes servers run again, whatever was done to them, all at the same time: one alone may wait for others.
func Revive[N Node](ctx context.Context, nodes ...N) error {
	return AtOnce(nodes, func(n N) error {
		if n.Thaw() == nil { // it runs
			return nil
		}
		return n.Restart(ctx)
	})
}

// inOrder calls steps one after the other until one fails.
func inOrder(ctx context.Context, steps ...func(ctx context.Context) error) error {
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// now is a step that takes no context.
func now(f func() error) func(context.Context) error {
	return func(context.Context) error { return f() }
}

// running is a step that revives nodes.
func running[N Node](nodes ...N) func(context.Context) error {
	return func(ctx context.Context) error { return Revive(ctx, nodes...) }
}

// AtOnce calls f for all at the same time and returns their errors when all have returned.
func AtOnce[M any](all []M, f func(M) error) error {
	return errors.Join(worker.AtOnce(all, func(_ int, one M) error { return f(one) })...)
}

// tryTime bounds one attempt, since a server that does not serve may not say so.
const tryTime = 2 * time.Second

// Eventually calls try, each time for at most two seconds, until it returns nil or ctx ends.
func Eventually(ctx context.Context, try func(ctx context.Context) error) error {
	return servers.Poll(ctx, func() error {
		ctx, cancel := context.WithTimeout(ctx, tryTime)
		defer cancel()
		return try(ctx)
	})
}
