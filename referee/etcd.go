package main

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/lockport/lockport/driver"
)

// etcdTTL is that of sessions, in seconds.
const etcdTTL = 2

// etcdMutex is concurrency.Mutex with a session for each claim, and with one that all claims of a client share.
func etcdMutex(name string, shared bool, use string) Subject {
	late := "clientv3/lease.go: the deadline of a lease counts from when the reply to its last keep-alive came (line 543), and is looked at twice a second"
	explained := map[string]string{"silence/frozen": late, "silence/slow": late}
	if shared {
		enters := "mutex.go, tryAcquire: the key is the name and the session's lease, so a second Mutex of the session finds the key and takes it for its own"
		orphan := "mutex.go, tryAcquire: where its Txn returns an error the key may be there, and stays for as long as the session; the clean-up comes after it"
		maps.Copy(explained, map[string]string{"exclusion": enters, "cancellation": orphan, "unknown": orphan, "giving-up": orphan})
	}
	return Subject{
		Name: name, Module: "go.etcd.io/etcd/client/v3", Environment: "etcd-suite", Use: use,
		Promises: map[string]string{
			"P1":  "Mutex: \"implements the sync Locker interface with etcd\"; ErrLocked: \"when Mutex is already locked by another session\"",
			"P3a": "Session.Done: \"closes when the lease is orphaned, expires, or is otherwise no longer being refreshed\"",
			"P5":  "WithTTL: \"configures the session's TTL in seconds\"",
			"P6":  "Lock: \"If the context is canceled while trying to acquire the lock, the mutex tries to clean its stale lock entry.\"",
			"P7":  "Lock: \"locks the mutex with a cancelable context\"",
		},
		Not: map[string]string{
			"cancellation/abandon-meanwhile": "it undoes a claim whose call has not returned",
			"cancellation/silent-server":     "NewSession has no context of its own",
		},
		Explained: explained,
		Open:      func(_ context.Context, rawURL string) (driver.Backend, error) { return openEtcd(rawURL, shared) },
		Remove: func(ctx context.Context, rawURL, name string) error {
			client, err := etcdClient(rawURL)
			if err != nil {
				return err
			}
			_, err = client.Delete(ctx, etcdKey(name)+"/", clientv3.WithPrefix())
			return errors.Join(err, client.Close())
		},
	}
}

func etcdKey(name string) string { return "/referee/" + name }

func etcdClient(rawURL string) (*clientv3.Client, error) {
	servers, err := hosts(rawURL)
	if err != nil {
		return nil, err
	}
	return clientv3.New(clientv3.Config{Endpoints: servers, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
}

func openEtcd(rawURL string, shared bool) (driver.Backend, error) {
	client, err := etcdClient(rawURL)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var ours *concurrency.Session
	session := func() (*concurrency.Session, error) {
		if !shared {
			return concurrency.NewSession(client, concurrency.WithTTL(etcdTTL))
		}
		mu.Lock()
		defer mu.Unlock()
		if ours != nil && ours.Ctx().Err() == nil {
			return ours, nil
		}
		s, err := concurrency.NewSession(client, concurrency.WithTTL(etcdTTL))
		if err == nil {
			ours = s
		}
		return s, err
	}
	return waiter{&thin{
		caps: driver.Capabilities{Backend: "etcd Mutex", Ends: driver.EndsSession, Wake: driver.WakeQueue, FixedTTL: etcdTTL * time.Second, Failover: driver.FailoverSafe},
		end:  client.Close,
		take: func(ctx context.Context, req driver.Request, wait bool) (*hold, error) {
			s, err := session()
			if err != nil {
				return nil, err
			}
			leave := func() error {
				if shared {
					return nil
				}
				return s.Close()
			}
			m := concurrency.NewMutex(s, etcdKey(req.Name))
			lock := m.TryLock
			if wait {
				lock = m.Lock
			}
			if err := lock(ctx); err != nil {
				_ = leave() // the error of the claim says more
				if errors.Is(err, concurrency.ErrLocked) {
					return nil, driver.ErrHeld
				}
				return nil, err
			}
			told := tell(s.Done(), req.Lost)
			return &hold{release: func(ctx context.Context) error {
				told()
				lost := s.Ctx().Err() != nil
				err := errors.Join(m.Unlock(ctx), leave())
				if lost {
					return driver.ErrLost
				}
				return err
			}}, nil
		},
	}}, nil
}
