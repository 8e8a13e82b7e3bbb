package main

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockport/lockport/driver"
)

// zkTTL is the session's timeout, which its user chooses.
const zkTTL = 2 * time.Second

var zkLockSubject = Subject{
	Name: "zk.Lock", Module: "github.com/go-zookeeper/zk", Environment: "zookeeper-suite",
	Use: "NewLock, Lock and Unlock on one connection; as it has no way to try, the driver looks for children first",
	Promises: map[string]string{
		"P1": "Lock: \"is a mutual exclusion lock\"",
		"P7": "LockWithData: \"will wait to return until the lock is acquired or an error occurs\"",
		"P5": "lock.go creates its node by CreateProtectedEphemeralSequential",
	},
	Not:  map[string]string{"loss/waiter-gets-it": "it fails where the holder, whose node was deleted, is told at its Unlock"},
	Open: openZKLock,
	Remove: func(ctx context.Context, rawURL, name string) error {
		conn, err := zkConn(ctx, rawURL)
		if err != nil {
			return err
		}
		defer conn.Close()
		children, _, err := conn.Children(zkPath(name))
		for _, child := range children {
			err = errors.Join(err, conn.Delete(zkPath(name)+"/"+child, -1))
		}
		return err
	},
}

func zkPath(name string) string { return "/referee/" + name }

type silent struct{}

func (silent) Printf(string, ...any) {}

// zkConn is a connection whose session has begun.
func zkConn(ctx context.Context, rawURL string) (*zk.Conn, error) {
	servers, err := hosts(rawURL)
	if err != nil {
		return nil, err
	}
	conn, events, err := zk.Connect(servers, zkTTL, zk.WithLogger(silent{}), zk.WithLogInfo(false))
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

func openZKLock(ctx context.Context, rawURL string) (driver.Backend, error) {
	conn, err := zkConn(ctx, rawURL)
	if err != nil {
		return nil, err
	}
	return waiter{&thin{
		caps: driver.Capabilities{Backend: "zk.Lock", Ends: driver.EndsSession, Wake: driver.WakeQueue, FixedTTL: zkTTL, Failover: driver.FailoverSafe},
		end:  func() error { conn.Close(); return nil },
		take: func(ctx context.Context, req driver.Request, wait bool) (*hold, error) {
			lock := zk.NewLock(conn, zkPath(req.Name), zk.WorldACL(zk.PermAll))
			result := make(chan error, 1)
			go func() { // its calls know no context
				children, _, err := conn.Children(zkPath(req.Name))
				switch {
				case err == nil && len(children) > 0 && !wait:
					err = driver.ErrHeld
				case err == nil || errors.Is(err, zk.ErrNoNode):
					err = lock.Lock()
				}
				if err == nil && ctx.Err() != nil {
					err = errors.Join(ctx.Err(), lock.Unlock()) // nobody waits for it any more
				}
				result <- err
			}()
			select {
			case err := <-result:
				if err != nil {
					return nil, err
				}
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			return &hold{release: func(context.Context) error {
				err := lock.Unlock()
				return lostIf(errors.Is(err, zk.ErrNoNode), err)
			}}, nil
		},
	}}, nil
}
