package libraries

import (
	"context"
	"errors"
	"io"
	"log"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockport/lockport/conformance/library"
	"github.com/lockport/lockport/driver"
)

// ZKLock is go-zookeeper's Lock.
var ZKLock = Subject{
	Name: "zk.Lock", Library: "zk.Lock", Module: "github.com/go-zookeeper/zk", Environment: "zookeeper-suite",
	Use: "NewLock, Lock and Unlock on one connection; it cannot try, so the driver checks for children first",
	Promises: map[string]string{
		"P1": "Lock: \"is a mutual exclusion lock\"",
		"P7": "LockWithData: \"will wait to return until the lock is acquired or an error occurs\"",
		"P5": "lock.go creates its node by CreateProtectedEphemeralSequential",
	},
	Caps: driver.Capabilities{Ends: driver.EndsSession, Wake: driver.WakeQueue, FixedTTL: sessionTTL, Failover: driver.FailoverSafe},
	Open: openZKLock,
}

// ZooKeeper returns a connection whose session has been established.
func ZooKeeper(ctx context.Context, rawURL string, timeout time.Duration) (*zk.Conn, error) {
	conn, events, err := zk.Connect(hosts(rawURL), timeout, zk.WithLogger(log.New(io.Discard, "", 0)), zk.WithLogInfo(false))
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

func openZKLock(ctx context.Context, rawURL string, ttl time.Duration) (library.Client, error) {
	conn, err := ZooKeeper(ctx, rawURL, ttl)
	if err != nil {
		return library.Client{}, err
	}
	return library.Client{Close: func() error { conn.Close(); return nil }, Take: func(ctx context.Context, c library.Claim) (*library.Hold, error) {
		path := "/referee/" + c.Name
		lock := zk.NewLock(conn, path, zk.WorldACL(zk.PermAll))
		result := make(chan error)
		go func() { // its calls take no context
			var children []string
			var err error
			if !c.Wait {
				children, _, err = conn.Children(path)
			}
			switch {
			case err == nil && len(children) > 0:
				err = driver.ErrHeld
			case err == nil || errors.Is(err, zk.ErrNoNode):
				err = lock.Lock()
			}
			select {
			case result <- err:
			case <-ctx.Done(): // the caller has given up
				if err == nil {
					_ = lock.Unlock()
				}
			}
		}()
		select {
		case err := <-result:
			if err != nil {
				return nil, err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return &library.Hold{Release: func(context.Context) error {
			err := lock.Unlock()
			return library.LostIf(errors.Is(err, zk.ErrNoNode), err)
		}}, nil
	}}, nil
}
