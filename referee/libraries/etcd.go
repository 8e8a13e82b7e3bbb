package libraries

import (
	"context"
	"errors"
	"maps"
	"math"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/lockport/lockport/conformance/library"
	"github.com/lockport/lockport/driver"
)

// EtcdMutex is concurrency.Mutex with a session for each claim. EtcdSharedSession shares one session among a client's claims. EtcdSpareSessions
// picks a session that is not used for the name, which is fastest; it is not judged.
var (
	EtcdMutex         = etcdMutex("etcd Mutex", ownSession, "NewSession and NewMutex for each claim, TryLock or Lock, Unlock and Session.Close, as in the package's example")
	EtcdSharedSession = etcdMutex("etcd Mutex, one session", oneSession, "NewMutex for each claim on one session of the process, TryLock or Lock, and Unlock")
	EtcdSpareSessions = etcdMutex("etcd Mutex, sessions to spare", spareSession, "NewMutex, TryLock or Lock, and Unlock, on a session that no other claim uses for the name")
)

func etcdMutex(name string, which choice, use string) Subject {
	explained := map[string]string{"silence/frozen": "etcd-late, below", "silence/slow": "etcd-late, below"}
	if which == oneSession {
		orphan := "etcd-orphan, below"
		maps.Copy(explained, map[string]string{"exclusion": "etcd-session, below", "cancellation": orphan, "unknown": orphan, "giving-up": orphan})
	}
	return Subject{
		Name: name, Library: "concurrency.Mutex", Module: "go.etcd.io/etcd/client/v3", Environment: "etcd-suite", Use: use,
		Promises: map[string]string{
			"P1":  "Mutex: \"implements the sync Locker interface with etcd\"; ErrLocked: \"when Mutex is already locked by another session\"",
			"P3a": "Session.Done: \"closes when the lease is orphaned, expires, or is otherwise no longer being refreshed\"",
			"P5":  "WithTTL: \"configures the session's TTL in seconds\"",
			"P6":  "Lock: \"If the context is canceled while trying to acquire the lock, the mutex tries to clean its stale lock entry.\"",
			"P7":  "Lock: \"locks the mutex with a cancelable context\"",
		},
		Not: map[string]string{
			"cancellation/abandon-meanwhile": "it undoes a claim whose call has not returned yet",
			"cancellation/silent-server":     "NewSession has no context of its own",
		},
		Explained: explained,
		Caps:      driver.Capabilities{Ends: driver.EndsSession, Wake: driver.WakeQueue, FixedTTL: sessionTTL, Failover: driver.FailoverSafe},
		Open: func(_ context.Context, rawURL string, ttl time.Duration) (library.Client, error) {
			return openEtcdMutex(rawURL, ttl, which)
		},
		Remove: func(ctx context.Context, rawURL, name string) error {
			client, err := Etcd(rawURL)
			if err != nil {
				return err
			}
			_, err = client.Delete(ctx, etcdKey(name)+"/", clientv3.WithPrefix())
			return errors.Join(err, client.Close())
		},
	}
}

func etcdKey(name string) string { return "/referee/" + name }

// Etcd opens a client of a URL's servers.
func Etcd(rawURL string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: hosts(rawURL), DialTimeout: 5 * time.Second, Logger: zap.NewNop(), MaxCallRecvMsgSize: math.MaxInt32})
}

func openEtcdMutex(rawURL string, ttl time.Duration, which choice) (library.Client, error) {
	client, err := Etcd(rawURL)
	if err != nil {
		return library.Client{}, err
	}
	all := &sessions{which: which, client: client, ttl: ttl, all: make(map[int]*concurrency.Session), taken: make(map[use]bool)}
	return library.Client{Close: client.Close, Take: func(ctx context.Context, c library.Claim) (*library.Hold, error) {
		s, leave, err := all.of(c.Name)
		if err != nil {
			return nil, err
		}
		m := concurrency.NewMutex(s, etcdKey(c.Name))
		if err := Either(c.Wait, m.Lock, m.TryLock)(ctx); err != nil {
			_ = leave() // the claim's error says more
			return nil, HeldIf(errors.Is(err, concurrency.ErrLocked), err)
		}
		return &library.Hold{Lost: s.Done(), Release: func(ctx context.Context) error {
			lost := s.Ctx().Err() != nil
			err := errors.Join(m.Unlock(ctx), leave())
			if lost {
				return driver.ErrLost
			}
			return err
		}}, nil
	}}, nil
}

// EtcdSession opens a session whose TTL is rounded up to seconds.
func EtcdSession(client *clientv3.Client, ttl time.Duration) (*concurrency.Session, error) {
	return concurrency.NewSession(client, concurrency.WithTTL(int(math.Ceil(ttl.Seconds()))))
}

// choice is the session that a claim gets.
type choice int

const (
	ownSession   choice = iota // one that the claim opens and closes
	oneSession                 // the client's only one, which is replaced when it has ended
	spareSession               // the client's first one that no other claim uses for the same name
)

// sessions are a client's sessions.
type sessions struct {
	which  choice
	client *clientv3.Client
	ttl    time.Duration

	mu    sync.Mutex
	all   map[int]*concurrency.Session
	taken map[use]bool
}

type use struct {
	name string
	i    int
}

// of returns the session of a claim for a name. Call leave when the claim has ended.
func (a *sessions) of(name string) (s *concurrency.Session, leave func() error, err error) {
	if a.which == ownSession {
		s, err = EtcdSession(a.client, a.ttl)
		return s, s.Close, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	u := use{name: name}
	for a.which == spareSession && a.taken[u] {
		u.i++
	}
	if s = a.all[u.i]; s == nil || s.Ctx().Err() != nil {
		if s, err = EtcdSession(a.client, a.ttl); err != nil {
			return nil, nil, err
		}
		a.all[u.i] = s
	}
	a.taken[u] = true
	return s, func() error {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.taken, u)
		return nil
	}, nil
}
