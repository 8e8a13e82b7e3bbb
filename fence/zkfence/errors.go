package zkfence

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/fence"
	"github.com/lockport/lockport/internal/fencecheck"
)

// await makes a request, and returns when ctx ends: go-zookeeper knows no contexts.
func await[T any](ctx context.Context, request func() (T, error)) (answer T, err error) {
	if err := ctx.Err(); err != nil {
		return answer, err
	}
	type reply struct {
		answer T
		err    error
	}
	done := make(chan reply, 1)
	go func() {
		answer, err := request()
		done <- reply{answer, err}
	}()
	select {
	case r := <-done:
		return r.answer, r.err
	case <-ctx.Done():
		return answer, ctx.Err()
	}
}

// why is the error of a write for which the fence was not as it should be.
func (g *Guard) why(ctx context.Context) error {
	seen, _, err := g.fence.look(ctx)
	switch latest := latest(seen); {
	case err == nil && latest == format(g.token): // read from a server that is behind, or registered anew
		err = errors.New("it is not known which is")
	case err == nil, errors.Is(err, zk.ErrNoNode):
		return g.refused(latest)
	}
	return fmt.Errorf("zkfence: %w: token %d is not the latest at %q: %w", fence.ErrStale, g.token, g.fence.path, err)
}

// refused is the error of a token that is not the registered one, whose node is seen.
func (g *Guard) refused(seen string) error {
	if _, ok := parse(seen); !ok && seen != fencecheck.Missing {
		seen = "no token"
	}
	return fmt.Errorf("zkfence: %w", fencecheck.Refuse(g.fence.path, g.token, seen))
}

// lost is the error of a lock whose node is gone.
func (g *Guard) lost() error { return fmt.Errorf("zkfence: %w", fencecheck.Lost(g.lock)) }

// explain makes the error of a request of err, which came from go-zookeeper. What the server answered passes unchanged.
func (g *Guard) explain(did string, err error) error {
	switch {
	case err == nil, errors.Is(err, fence.ErrStale):
		return err
	case errors.Is(err, zk.ErrNoServer):
		return fmt.Errorf("zkfence: %s at %q: %w: no server can be reached: %w", did, g.fence.path, driver.ErrUnavailable, err)
	case errors.Is(err, zk.ErrNoAuth):
		return fmt.Errorf("zkfence: %s at %q: the ACL does not let this user read, create, write or delete: %w", did, g.fence.path, err)
	case errors.Is(err, zk.ErrConnectionClosed), errors.Is(err, zk.ErrClosing), errors.Is(err, zk.ErrSessionExpired),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("zkfence: %s at %q: %w: no answer from ZooKeeper: %w", did, g.fence.path, driver.ErrUnknown, err)
	}
	return fmt.Errorf("zkfence: %s at %q: %w", did, g.fence.path, err)
}
