package lib

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/lockport/lockport/internal/lab/measure"
)

type silent struct{}

func (silent) Printf(string, ...any) {}

var acl = zk.WorldACL(zk.PermAll)

// openZK opens a locker on a session with the servers that a URL names, which has begun.
func openZK(ctx context.Context, c measure.Config, acquire func(conn *zk.Conn, ctx context.Context, name string, wait bool) (measure.Release, error)) (l measure.Locker, err error) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return l, err
	}
	conn, events, err := zk.Connect(strings.Split(u.Host, ","), c.TTL, zk.WithLogger(silent{}), zk.WithLogInfo(false))
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
	return measure.Locker{Close: func() error { conn.Close(); return nil }, Acquire: func(ctx context.Context, name string, wait bool) (measure.Release, error) {
		return acquire(conn, ctx, name, wait)
	}}, nil
}

// openZKLocks opens the library's locks. They do not notice the end of a context: the library has no way to be told.
func openZKLocks(ctx context.Context, c measure.Config) (measure.Locker, error) {
	return openZK(ctx, c, func(conn *zk.Conn, _ context.Context, name string, wait bool) (measure.Release, error) {
		if !wait { // the library has no way to try: ask whether there is a node already
			children, _, err := conn.Children("/bench/" + name)
			if err != nil && !errors.Is(err, zk.ErrNoNode) {
				return nil, err
			}
			if len(children) > 0 {
				return nil, measure.ErrHeld
			}
		}
		lock := zk.NewLock(conn, "/bench/"+name, acl)
		return func(context.Context) error { return lock.Unlock() }, lock.Lock()
	})
}

// openBareZK opens the floors. A waiter watches the node.
func openBareZK(ctx context.Context, c measure.Config) (measure.Locker, error) {
	return openZK(ctx, c, func(conn *zk.Conn, ctx context.Context, name string, wait bool) (measure.Release, error) {
		path := "/bench-" + name
		try := func() (measure.Release, error) {
			_, err := conn.Create(path, nil, zk.FlagEphemeral, acl)
			if errors.Is(err, zk.ErrNodeExists) {
				err = measure.ErrHeld
			}
			return func(context.Context) error { return conn.Delete(path, -1) }, err
		}
		if !wait {
			return try()
		}
		return untilTaken(try, func() error {
			there, _, gone, err := conn.ExistsW(path)
			if err != nil || !there {
				return err
			}
			select {
			case seen := <-gone:
				if seen.Type != zk.EventNodeDeleted {
					return errors.Join(errors.New("the watch has ended"), seen.Err)
				}
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})
}
