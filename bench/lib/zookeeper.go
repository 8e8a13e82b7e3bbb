package lib

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/go-zookeeper/zk"
)

func init() {
	const module = "github.com/go-zookeeper/zk"
	register(Library{
		Name: "zk.Lock", Family: "zookeeper", Kind: Theirs, Module: module,
		How: "NewLock, Lock and Unlock on one session", Renewal: WithServer, Waits: true,
		MostWaiters: 1000, WhyMost: "each reads the names of all the others",
		Open: openZKLocks,
	})
	register(Library{
		Name: "create, delete", Family: "zookeeper", Kind: Floor, Module: module,
		How: "create of an ephemeral node, and delete", Renewal: WithServer, Open: openBareZK,
	})
	register(Library{
		Name: "exists, create", Family: "zookeeper", Kind: Floor, Module: module, Only: []string{"handoff-other"}, Waits: true,
		How: "delete; who has a watch of exists sends the create", Renewal: WithServer, Open: openBareZK,
	})
}

type silent struct{}

func (silent) Printf(string, ...any) {}

var acl = zk.WorldACL(zk.PermAll)

// zkConn is a session with the servers that a URL names. It returns when that has begun.
func zkConn(ctx context.Context, c Config) (conn *zk.Conn, end func() error, err error) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return nil, nil, err
	}
	conn, events, err := zk.Connect(strings.Split(u.Host, ","), c.TTL, zk.WithLogger(silent{}), zk.WithLogInfo(false))
	if err != nil {
		return nil, nil, err
	}
	for conn.State() != zk.StateHasSession {
		select {
		case <-events:
		case <-ctx.Done():
			conn.Close()
			return nil, nil, ctx.Err()
		}
	}
	return conn, func() error { conn.Close(); return nil }, nil
}

// openZKLocks opens the library's locks. They do not notice the end of a context: the library has no way to be told.
func openZKLocks(ctx context.Context, c Config) (Locker, error) {
	conn, end, err := zkConn(ctx, c)
	if err != nil {
		return nil, err
	}
	return takes{func(_ context.Context, name string, wait bool) (release, error) {
		if !wait { // the library has no way to try: ask whether there is a node already
			children, _, err := conn.Children("/bench/" + name)
			if err != nil && !errors.Is(err, zk.ErrNoNode) {
				return nil, err
			}
			if len(children) > 0 {
				return nil, ErrHeld
			}
		}
		l := zk.NewLock(conn, "/bench/"+name, acl)
		return func(context.Context) error { return l.Unlock() }, l.Lock()
	}, end}, nil
}

// openBareZK opens the floors. A waiter watches the node.
func openBareZK(ctx context.Context, c Config) (Locker, error) {
	conn, end, err := zkConn(ctx, c)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Create("/bench-floor", nil, 0, acl); err != nil && !errors.Is(err, zk.ErrNodeExists) {
		return nil, err
	}
	return takes{func(ctx context.Context, name string, wait bool) (release, error) {
		path := "/bench-floor/" + name
		try := func() (release, error) {
			_, err := conn.Create(path, nil, zk.FlagEphemeral, acl)
			if errors.Is(err, zk.ErrNodeExists) {
				err = ErrHeld
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
	}, end}, nil
}
