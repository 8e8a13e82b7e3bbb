package lib

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/go-zookeeper/zk"
)

const zkModule = "github.com/go-zookeeper/zk"

func init() {
	register(Library{
		Name: "zk.Lock", Family: "zookeeper", Kind: Theirs, Module: zkModule,
		How: "NewLock, Lock and Unlock on one session", Renewal: WithServer, Waits: true,
		MostWaiters: 1000, WhyMost: "each reads the names of all the others",
		Open: func(ctx context.Context, c Config) (Locker, error) {
			conn, err := zkConn(ctx, c)
			return zkLocks{conn}, err
		},
	})
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// zkConn is a session with the servers that a URL names. It returns when that has begun.
func zkConn(ctx context.Context, c Config) (*zk.Conn, error) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return nil, err
	}
	conn, events, err := zk.Connect(strings.Split(u.Host, ","), c.TTL, zk.WithLogger(silent{}), zk.WithLogInfo(false))
	if err != nil {
		return nil, err
	}
	for conn.State() != zk.StateHasSession {
		select {
		case <-events:
		case <-ctx.Done():
			conn.Close()
			return nil, ctx.Err()
		}
	}
	return conn, nil
}

type zkLocks struct{ *zk.Conn }

// Acquire hears nothing of the end of ctx: the library has no way to be told.
func (z zkLocks) Acquire(_ context.Context, name string) (Hold, error) {
	l := zk.NewLock(z.Conn, "/bench/"+name, zk.WorldACL(zk.PermAll))
	if err := l.Lock(); err != nil {
		return nil, err
	}
	return zkHold{l}, nil
}

// Try asks whether there is a node already: the library has no way to try.
func (z zkLocks) Try(ctx context.Context, name string) (Hold, error) {
	children, _, err := z.Children("/bench/" + name)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, err
	}
	if len(children) > 0 {
		return nil, ErrHeld
	}
	return z.Acquire(ctx, name)
}

func (z zkLocks) Close() error {
	z.Conn.Close()
	return nil
}

type zkHold struct{ *zk.Lock }

func (h zkHold) Release(context.Context) error { return h.Unlock() }
