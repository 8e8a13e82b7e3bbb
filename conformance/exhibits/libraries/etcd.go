package libraries

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
)

const (
	etcdPrefix = "libraries/"
	etcdValue  = "libraries-claim"
	etcdTTL    = 2 * time.Second // the smallest that a server grants at its defaults
)

// etcdLock is a lock on etcd: a key for each claim, on a lease of its own.
type etcdLock struct {
	lock
	client *clientv3.Client
}

// etcdClaim is what a claim has at the server.
type etcdClaim struct {
	lease    clientv3.LeaseID
	revision int64
}

func newEtcd(target string) (*etcdLock, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{target}, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	l := &etcdLock{client: client}
	l.caps = driver.Capabilities{Backend: "etcd", Ends: driver.EndsTTL, Token: driver.TokenData, MinTTL: etcdTTL, TTLGrain: time.Second}
	l.take, l.renew, l.release, l.close = l.put, l.prolong, l.remove, client.Close
	l.abandon = func(ctx context.Context, req driver.Request) error {
		_, err := client.Delete(ctx, etcdKey(req))
		return unknown(err)
	}
	return l, nil
}

// onEtcd opens the lock with what spoil changes.
func onEtcd(spoil func(*etcdLock)) opener {
	return func(_ context.Context, target string) (driver.Backend, error) {
		l, err := newEtcd(target)
		if err != nil {
			return nil, err
		}
		spoil(l)
		return l, nil
	}
}

func etcdFolder(name string) string { return etcdPrefix + Digest(name) + "/" }

func etcdKey(req driver.Request) string { return etcdFolder(req.Name) + guid(req.Owner) }

func (l *etcdLock) put(ctx context.Context, req driver.Request) (*claim, error) {
	sent := time.Now()
	lease, err := l.client.Grant(ctx, int64(req.TTL/time.Second))
	if err != nil {
		return nil, unknown(err)
	}
	key, folder := etcdKey(req), etcdFolder(req.Name)
	r, err := l.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(folder), "=", 0).WithPrefix()).
		Then(clientv3.OpPut(key, etcdValue, clientv3.WithLease(lease.ID))).Commit()
	if err != nil {
		return nil, unknown(err)
	}
	if !r.Succeeded {
		_, _ = l.client.Revoke(ctx, lease.ID) // it would expire
		return nil, driver.ErrHeld
	}
	until := sent.Add(time.Duration(lease.TTL) * time.Second)
	return &claim{grant: driver.Grant{Token: uint64(r.Header.Revision), Until: until}, own: etcdClaim{lease.ID, r.Header.Revision}}, nil
}

// keepAlive prolongs the lease of a claim and returns for how long.
func (l *etcdLock) keepAlive(ctx context.Context, c *claim) (time.Duration, error) {
	r, err := l.client.KeepAliveOnce(ctx, c.own.(etcdClaim).lease)
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return 0, driver.ErrLost
	case err != nil:
		return 0, unknown(err)
	}
	return time.Duration(r.TTL) * time.Second, nil
}

func (l *etcdLock) prolong(ctx context.Context, c *claim) (time.Time, error) {
	sent := time.Now()
	ttl, err := l.keepAlive(ctx, c)
	return sent.Add(ttl), err
}

// remove needs no guard: the key is this claim's alone.
func (l *etcdLock) remove(ctx context.Context, c *claim) error {
	r, err := l.client.Delete(ctx, etcdKey(c.req))
	switch {
	case err != nil:
		return unknown(err)
	case r.Deleted == 0:
		return driver.ErrLost
	}
	_, _ = l.client.Revoke(ctx, c.own.(etcdClaim).lease) // it would expire
	return nil
}

// mutexes opens the lock of etcd's own client: a concurrency.Session, and a concurrency.Mutex for each claim.
func mutexes(_ context.Context, target string) (driver.Backend, error) {
	l, err := newEtcd(target)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var session *concurrency.Session
	var all sync.Map // the mutexes by their owner
	l.caps = driver.Capabilities{Backend: "etcd", Ends: driver.EndsSession, Token: driver.TokenData, FixedTTL: etcdTTL}
	l.take = func(ctx context.Context, req driver.Request) (*claim, error) {
		mu.Lock()
		defer mu.Unlock()
		if session == nil {
			s, err := concurrency.NewSession(l.client, concurrency.WithTTL(int(etcdTTL/time.Second)))
			if err != nil {
				return nil, unavailable(err)
			}
			session = s
		}
		m := concurrency.NewMutex(session, etcdPrefix+Digest(req.Name))
		all.Store(req.Owner, m)
		switch err := m.TryLock(ctx); {
		case errors.Is(err, concurrency.ErrLocked):
			return nil, driver.ErrHeld
		case err != nil:
			return nil, unknown(err)
		}
		return &claim{grant: driver.Grant{Token: uint64(m.Header().Revision)}, own: m}, nil
	}
	unlock := func(ctx context.Context, m *concurrency.Mutex) error {
		err := m.Unlock(ctx)
		if errors.Is(err, concurrency.ErrLockReleased) {
			return nil
		}
		return unknown(err)
	}
	l.renew = never
	l.release = func(ctx context.Context, c *claim) error { return unlock(ctx, c.own.(*concurrency.Mutex)) }
	l.abandon = func(ctx context.Context, req driver.Request) error {
		if m, ok := all.Load(req.Owner); ok {
			return unlock(ctx, m.(*concurrency.Mutex))
		}
		return nil
	}
	l.close = func() error {
		mu.Lock()
		defer mu.Unlock()
		if session != nil {
			_ = session.Close()
		}
		return l.client.Close()
	}
	return l, nil
}

// etcdBugs are locks on etcd.
var etcdBugs = soundly(onEtcd(func(*etcdLock) {}), []Exhibit{
	{
		Name: "mutexes-share-a-session", Library: "clientv3/concurrency", Reference: "https://github.com/etcd-io/etcd/pull/11364", Server: Etcd,
		Is:       "the key of a Mutex is that of its session: two on one session both hold",
		CaughtBy: []string{"exclusion/two-claims"}, Sees: "another claim was granted", broken: mutexes,
	},
	{
		Name: "stale-unlock", Library: "clientv3/concurrency", Reference: "https://github.com/etcd-io/etcd/issues/22082", Server: Etcd,
		Is:       "Unlock, repeated because its reply was lost, deletes what the same session has locked since",
		CaughtBy: []string{"unknown/release-reply-lost-same-client"}, Sees: "the next holder has not released the name, yet another claim was granted",
		broken: mutexes,
	},
	{
		Name: "deadline-from-the-reply", Library: "clientv3", Reference: "https://github.com/etcd-io/etcd/pull/5603", Server: Etcd,
		Is:       "a lease is believed for its TTL from when the reply to a keep-alive came, not from when it was sent",
		CaughtBy: []string{"contract/renewal-counts-from-sending"}, Sees: "the reply to the renewal came",
		broken: onEtcd(func(l *etcdLock) {
			l.renew = func(ctx context.Context, c *claim) (time.Time, error) {
				ttl, err := l.keepAlive(ctx, c)
				return time.Now().Add(ttl), err
			}
		}),
	},
})

// isEtcdOp looks at the messages in the frames of HTTP/2: a release has one key and nothing else.
func isEtcdOp(op conformance.Op, request []byte) bool {
	for len(request) >= 9 {
		size, kind, body := int(binary.BigEndian.Uint32(request)>>8), request[3], request[9:]
		if size > len(body) {
			break
		}
		if data := body[:size]; kind == 0 && size > 7 {
			message := data[5:]
			alone := message[0] == 10 && int(message[1]) == len(message)-2 && bytes.HasPrefix(message[2:], []byte(etcdPrefix))
			if op == conformance.OpRelease && alone || op == conformance.OpAcquire && !alone && bytes.Contains(message, []byte(etcdPrefix)) {
				return true
			}
		}
		request = body[size:]
	}
	return false
}
