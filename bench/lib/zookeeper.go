package lib

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockport/lockport/conformance/library"
	"github.com/lockport/lockport/referee/libraries"
)

// openBareZK opens the floors. Waiters watch the node.
func openBareZK(ctx context.Context, rawURL string, ttl time.Duration) (l library.Client, err error) {
	conn, err := libraries.ZooKeeper(ctx, rawURL, ttl)
	if err != nil {
		return l, err
	}
	return library.Client{Close: func() error { conn.Close(); return nil }, Take: func(ctx context.Context, c library.Claim) (*library.Hold, error) {
		path := "/bench-" + c.Name
		release := func(context.Context) error { return conn.Delete(path, -1) }
		try := func() error {
			_, err := conn.Create(path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
			return libraries.HeldIf(errors.Is(err, zk.ErrNodeExists), err)
		}
		return held(release, claimed(c.Wait, try, func() error { return awaitGone(ctx, conn, path) }))
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
