package lib

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/lockport/lockport/internal/lab/measure"
)

type silent struct{}

func (silent) Printf(string, ...any) {}

var acl = zk.WorldACL(zk.PermAll)

// openZK opens a session, which has begun, and a locker on it.
func openZK(ctx context.Context, c measure.Config, locker func(*zk.Conn) measure.Locker) (l measure.Locker, err error) {
	conn, events, err := zk.Connect(hosts(c), c.TTL, zk.WithLogger(silent{}), zk.WithLogInfo(false))
	if err != nil {
		return l, err
	}
	for conn.State() != zk.StateHasSession {
		select {
		case <-events:
		case <-ctx.Done():
			conn.Close()
			return l, ctx.Err()
		}
	}
	l = locker(conn)
	l.Close = func() error { conn.Close(); return nil }
	return l, nil
}

// openZKLocks opens the library's locks. They do not notice the end of a context: the library has no way to be told.
func openZKLocks(ctx context.Context, c measure.Config) (measure.Locker, error) {
	return openZK(ctx, c, func(conn *zk.Conn) measure.Locker {
		return measure.Locker{Acquire: func(_ context.Context, name string, wait bool) (measure.Release, error) {
			if !wait { // the library has no way to try: ask whether there is a node already
				children, _, err := conn.Children("/bench/" + name)
				if err = either(errors.Is(err, zk.ErrNoNode), nil, err); err != nil || len(children) > 0 {
					return nil, heldIf(err == nil, err)
				}
			}
			lock := zk.NewLock(conn, "/bench/"+name, acl)
			return func(context.Context) error { return lock.Unlock() }, lock.Lock()
		}}
	})
}

// openBareZK opens the floors. A waiter watches the node.
func openBareZK(ctx context.Context, c measure.Config) (measure.Locker, error) {
	return openZK(ctx, c, func(conn *zk.Conn) measure.Locker {
		return measure.Locker{Acquire: func(ctx context.Context, name string, wait bool) (measure.Release, error) {
			path := "/bench-" + name
			release := func(context.Context) error { return conn.Delete(path, -1) }
			try := func() error {
				_, err := conn.Create(path, nil, zk.FlagEphemeral, acl)
				return heldIf(errors.Is(err, zk.ErrNodeExists), err)
			}
			if !wait {
				return release, try()
			}
			return release, untilTaken(try, func() error { return awaitGone(ctx, conn, path) })
		}}
	})
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
