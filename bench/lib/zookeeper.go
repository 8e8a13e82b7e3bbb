package lib

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/lockport/lockport/internal/lab/measure"
	"github.com/lockport/lockport/referee/libraries"
)

// openBareZK opens the floors. Waiters watch the node.
func openBareZK(ctx context.Context, c measure.Config) (l measure.Locker, err error) {
	conn, err := libraries.ZooKeeper(ctx, c.URL, c.TTL)
	if err != nil {
		return l, err
	}
	return measure.Locker{Close: func() error { conn.Close(); return nil }, Acquire: func(ctx context.Context, name string, wait bool) (measure.Release, error) {
		path := "/bench-" + name
		release := func(context.Context) error { return conn.Delete(path, -1) }
		try := func() error {
			_, err := conn.Create(path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
			return heldIf(errors.Is(err, zk.ErrNodeExists), err)
		}
		if !wait {
			return release, try()
		}
		return release, untilTaken(try, func() error { return awaitGone(ctx, conn, path) })
	}}, nil
}

// awaitGone returns when the node has been deleted.
func awaitGone(ctx context.Context, conn *zk.Conn, path string) error {
	there, _, gone, err := conn.ExistsW(path)
	if err != nil || !there {
		return err
	}
	select {
	case seen := <-gone:
		return seen.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}
