package articles

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/lockport/lockport/driver"
)

// EtcdPrefix is the prefix of the keys of locks on etcd.
const EtcdPrefix = "libraries/"

// onEtcd drives the lock of etcd's own client: a concurrency.Session, and a concurrency.Mutex for each claim.
func onEtcd(shared bool) opener {
	return func(target string) (driver.Backend, error) {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{target}, Logger: zap.NewNop()})
		if err != nil {
			return nil, err
		}
		caps := driver.Capabilities{Backend: "etcd", Ends: driver.EndsSession, FixedTTL: sessionTTL}
		return inSessions(caps, shared, func(context.Context) (session, error) {
			s, err := concurrency.NewSession(client, concurrency.WithTTL(int(sessionTTL/time.Second)))
			if err != nil {
				return session{}, err
			}
			lock := func(ctx context.Context, name string) (func(context.Context) error, error) {
				m := concurrency.NewMutex(s, EtcdPrefix+name)
				unlock := func(ctx context.Context) error { return unless(m.Unlock(ctx), concurrency.ErrLockReleased) }
				err := m.TryLock(ctx)
				if errors.Is(err, concurrency.ErrLocked) {
					err = driver.ErrHeld
				}
				return unlock, err
			}
			return session{lock, func(context.Context) error { return unless(s.Close(), rpctypes.ErrLeaseNotFound) }}, nil
		}, client.Close), nil
	}
}
