package libraries

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/lockport/lockport/driver"
)

// zookeeperBugs are locks on ZooKeeper.
var zookeeperBugs = soundly(onZooKeeper(func(*zkLock) {}), []Exhibit{
	{
		Name: "believes-an-old-sessions-node", Library: "Curator", Reference: "https://github.com/apache/curator/issues/1121", Server: ZooKeeper,
		Is:       "a node with its own GUID is believed although it is of the session before, and vanishes with that",
		CaughtBy: []string{"unknown/acquire-reply-lost-kept"}, Sees: "yet another claim was granted",
		broken: onZooKeeper(func(l *zkLock) {
			l.take = func(ctx context.Context, req driver.Request) (*claim, error) {
				s, err := l.conn()
				if err != nil {
					return nil, err
				}
				path, s, err := l.freshNode(s, req)
				if err != nil {
					return nil, unknown(err)
				}
				return l.judge(s, req, path)
			}
		}),
	},
	{
		Name: "orphan-after-connection-loss", Library: "go-zookeeper", Reference: "https://github.com/samuel/go-zookeeper/issues/229", Server: ZooKeeper,
		Is:       "Lock returns when the connection is lost, has forgotten its node, and Unlock says that nothing is locked",
		CaughtBy: []string{"unknown/cut-after-each-request"}, Sees: "cut off after request",
		broken: onZooKeeper(ownLock),
	},
	{
		Name: "interrupted-and-left-behind", Library: "Curator", Reference: "https://github.com/apache/curator/issues/600", Server: ZooKeeper,
		Is:       "who is interrupted while the node is created does not know of it, and leaves it behind",
		CaughtBy: []string{"cancellation/after-each-request"}, Sees: "must be granted",
		broken: onZooKeeper(func(l *zkLock) {
			l.take = func(ctx context.Context, req driver.Request) (*claim, error) {
				s, err := l.conn()
				if err != nil {
					return nil, err
				}
				path, err := l.node(s, req)
				switch {
				case err != nil:
					return nil, unknown(err)
				case ctx.Err() != nil:
					return nil, unavailable(ctx.Err())
				}
				return l.judge(s, req, path)
			}
		}),
	},
	{
		Name: "the-sequence-is-the-token", Library: "go-zookeeper", Reference: "https://github.com/samuel/go-zookeeper/issues/207", Server: ZooKeeper,
		Is:       "the number at the end of the node's name is the token; it begins anew with the node above it",
		CaughtBy: []string{"fencing/removed"}, Sees: "a grant had token 1, an earlier one 1",
		broken: onZooKeeper(func(l *zkLock) {
			l.take = func(ctx context.Context, req driver.Request) (*claim, error) {
				c, err := l.queue(ctx, req)
				if err == nil {
					var n uint64
					n, err = strconv.ParseUint(zkNumber(c.own.(string)), 10, 64)
					c.grant.Token = n + 1 // from 1
				}
				return c, err
			}
		}),
	},
})

// freshNode is node, which after a lost connection goes on with another session, the server's end of the one before being still to come.
func (l *zkLock) freshNode(s *zkSession, req driver.Request) (string, *zkSession, error) {
	path, err := s.create(req)
	if !errors.Is(err, zk.ErrConnectionClosed) {
		return path, s, err
	}
	s.leave()
	next, err := dialZooKeeper(l.addr)
	if err != nil {
		return "", nil, err
	}
	l.mu.Lock()
	l.old, l.session = append(l.old, s), next
	l.mu.Unlock()
	path, _, err = next.find(req)
	if err == nil && path == "" {
		path, err = next.create(req)
	}
	return path, next, err
}

// ownLock makes l the lock of go-zookeeper itself. That waits, and knows no context, so it is called only where nobody holds.
func ownLock(l *zkLock) {
	var all sync.Map // the locks by their owner
	unlock := func(own *zk.Lock) error {
		if err := own.Unlock(); !errors.Is(err, zk.ErrNotLocked) {
			return unknown(err)
		}
		return nil
	}
	l.take = func(_ context.Context, req driver.Request) (*claim, error) {
		s, err := l.conn()
		if err != nil {
			return nil, err
		}
		switch nodes, _, err := s.Children(zkFolder(req.Name)); {
		case err != nil && !errors.Is(err, zk.ErrNoNode):
			return nil, unknown(err)
		case len(nodes) > 0:
			return nil, driver.ErrHeld
		}
		own := zk.NewLock(s.Conn, zkFolder(req.Name), zkACL)
		all.Store(req.Owner, own)
		if err := own.Lock(); err != nil {
			return nil, unknown(err)
		}
		return &claim{own: own}, nil
	}
	l.caps.Token = driver.TokenNone
	l.release = func(_ context.Context, c *claim) error { return unlock(c.own.(*zk.Lock)) }
	l.abandon = func(_ context.Context, req driver.Request) error {
		if own, ok := all.Load(req.Owner); ok {
			return unlock(own.(*zk.Lock))
		}
		return nil
	}
}
