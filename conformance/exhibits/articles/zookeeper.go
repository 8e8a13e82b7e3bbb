package articles

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/lockport/lockport/driver"
)

// onZooKeeper drives the lock of go-zookeeper. That lock waits and ignores contexts, so it is called only if the name is free.
func onZooKeeper(shared bool) opener {
	return func(target string) (driver.Backend, error) {
		caps := driver.Capabilities{Backend: "zookeeper", Ends: driver.EndsSession, FixedTTL: 2 * sessionTTL}
		return inSessions(caps, shared, func(context.Context) (session, error) {
			conn, _, err := zk.Connect([]string{target}, 2*sessionTTL, zk.WithLogger(silent{}), zk.WithLogInfo(false))
			var folders []string
			lock := func(_ context.Context, name string) (func(context.Context) error, error) {
				folder := "/libraries/" + name
				switch nodes, _, err := conn.Children(folder); {
				case len(nodes) > 0:
					return nil, driver.ErrHeld
				case err != nil && !errors.Is(err, zk.ErrNoNode):
					return nil, err
				}
				folders = append(folders, folder)
				own := zk.NewLock(conn, folder, zk.WorldACL(zk.PermAll))
				return func(context.Context) error { return unless(own.Unlock(), zk.ErrNotLocked) }, own.Lock()
			}
			return session{lock, func(context.Context) error {
				for _, folder := range folders {
					if err := sweep(conn, folder); err != nil {
						return err
					}
				}
				conn.Close()
				folders = nil
				return nil
			}}, err
		}, func() error { return nil }), nil
	}
}

// sweep removes all nodes of a session, forgotten ones included.
func sweep(conn *zk.Conn, folder string) error {
	nodes, _, err := conn.Children(folder)
	for _, node := range nodes {
		ours, stat, err := conn.Exists(folder + "/" + node)
		if err == nil && ours && stat.EphemeralOwner == conn.SessionID() {
			err = unless(conn.Delete(folder+"/"+node, -1), zk.ErrNoNode)
		}
		if err != nil {
			return err
		}
	}
	return unless(err, zk.ErrNoNode)
}

// silent logs nothing.
type silent struct{}

func (silent) Printf(string, ...any) {}
