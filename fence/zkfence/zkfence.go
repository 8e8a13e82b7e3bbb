package zkfence

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/zookeeper"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/fence"
	"github.com/lockport/lockport/internal/fencecheck"
)

// Options are the options of a fence. The zero value is useful.
type Options struct {
	// ACL is that of the nodes that are created. It must let the holders read, create, write and delete. Default: everything for everybody.
	ACL []zk.ACL
}

// Fence is where the token of the latest holder is kept: one node with one child. Safe for concurrent use.
type Fence struct {
	conn  *zk.Conn
	place fencecheck.Place
	acl   []zk.ACL
}

// New makes a fence at the node path, "/fences/account-7", on conn. It does no I/O, needs no closing, and does not close conn.
func New(conn *zk.Conn, path string, o Options) (*Fence, error) {
	switch {
	case conn == nil:
		return nil, errors.New("zkfence: the connection is nil")
	case len(path) < 2 || path[0] != '/' || strings.HasSuffix(path, "/") || strings.Contains(path, "//"):
		return nil, fmt.Errorf("zkfence: the path %q is not a node's path: want \"/fences/name\"", path)
	case path == "/zookeeper" || strings.HasPrefix(path, "/zookeeper/"):
		return nil, fmt.Errorf("zkfence: the path %q is ZooKeeper's own", path)
	}
	if len(o.ACL) == 0 {
		o.ACL = zk.WorldACL(zk.PermAll)
	}
	return &Fence{conn, fencecheck.Place{Package: "zkfence", Key: path, Digits: fencecheck.Padding}, slices.Clone(o.ACL)}, nil
}

// Path is the fence's node. Delete it, with its child, when the data that it guards are gone, and no holder is left.
func (f *Fence) Path() string { return f.place.Key }

// Register records that token's holder is the latest and returns the guard for its writes: a list and a multi, and more requests for the first of all.
// A holder registers before it reads. Registering a token again, at once or later, is no error as long as no greater one is registered.
//
// The error matches fence.ErrStale if a greater token is registered; that holder has the lock, or had it after this one.
func (f *Fence) Register(ctx context.Context, token lockport.Token) (*Guard, error) {
	return f.register(ctx, token, "")
}

// RegisterLock is Register with the token of l, a lock on the same ZooKeeper. The lock's own node is checked here and by every write: the error matches
// lockport.ErrLost, and fence.ErrStale, once the lock is gone.
func (f *Fence) RegisterLock(ctx context.Context, l *lockport.Lock) (*Guard, error) {
	var node zookeeper.Node
	token, err := f.place.Holder(l, "zookeeper", &node)
	if err != nil {
		return nil, err
	}
	return f.register(ctx, token, node.Path)
}

// attempts are made to register while others do at the same time. Each loses against one that has succeeded.
const attempts = 100

func (f *Fence) register(ctx context.Context, token lockport.Token, lock string) (*Guard, error) {
	err := fence.Check("", token, 0)
	if err != nil {
		return nil, f.place.Explain("register", err)
	}
	g := &Guard{fence: f, token: token, lock: lock}
	for range attempts {
		err = g.register(ctx)
		if err == nil {
			return g, nil
		}
		if !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNodeExists) && !errors.Is(err, zk.ErrBadVersion) {
			break
		}
	}
	return nil, err
}

// register makes one attempt. That somebody came in between is an error of ZooKeeper about nodes or versions.
func (g *Guard) register(ctx context.Context) error {
	f := g.fence
	seen, version, err := f.look(ctx)
	if errors.Is(err, zk.ErrNoNode) {
		if err = f.create(ctx, f.place.Key); err == nil {
			seen, version, err = f.look(ctx)
		}
	}
	if err != nil {
		return f.explain("register", err)
	}
	if latest := f.latest(seen); latest != fencecheck.Missing {
		if n, ok := f.place.Parse(latest); !ok || n > g.token {
			return f.place.Refuse(g.token, latest)
		}
	}
	ops := g.held()
	if len(seen) == 1 && seen[0] == f.place.Format(g.token) {
		ops = append(ops, check(g.child())) // what was read may be old: the leader has the last word
	} else {
		ops = append(ops, &zk.SetDataRequest{Path: f.place.Key, Data: []byte(f.place.Format(g.token)), Version: version})
		for _, old := range seen {
			ops = append(ops, &zk.DeleteRequest{Path: f.place.Key + "/" + old, Version: -1})
		}
		ops = append(ops, &zk.CreateRequest{Path: g.child(), Acl: f.acl})
	}
	results, err := f.multi(ctx, ops)
	if g.lock != "" && len(results) > 0 && errors.Is(results[0].Error, zk.ErrNoNode) {
		return f.place.Lost(g.lock)
	}
	return f.explain("register", err)
}

// look lists the fence's children, sorted, and the version of its node.
func (f *Fence) look(ctx context.Context) (children []string, version int32, err error) {
	type list struct {
		children []string
		stat     *zk.Stat
	}
	l, err := fencecheck.Await(ctx, func() (list, error) {
		children, stat, err := f.conn.Children(f.place.Key)
		return list{children, stat}, err
	})
	if err != nil {
		return nil, 0, err
	}
	slices.Sort(l.children)
	return l.children, l.stat.Version, nil
}

// latest is the greatest of the fence's children, or one that is no token.
func (f *Fence) latest(seen []string) string {
	last := fencecheck.Missing
	for _, s := range seen {
		if _, ok := f.place.Parse(s); !ok {
			return "no token"
		}
		last = s
	}
	return last
}

// create creates the fence's node, and what is above it.
func (f *Fence) create(ctx context.Context, path string) error {
	_, err := fencecheck.Await(ctx, func() (string, error) { return f.conn.Create(path, nil, 0, f.acl) })
	if errors.Is(err, zk.ErrNoNode) {
		above := path[:strings.LastIndexByte(path, '/')]
		if above == "" {
			return errors.New("the root is missing, or the chroot of the connection: create it first")
		}
		if err = f.create(ctx, above); err == nil {
			return f.create(ctx, path)
		}
	}
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

func (f *Fence) multi(ctx context.Context, ops []any) ([]zk.MultiResponse, error) {
	return fencecheck.Await(ctx, func() ([]zk.MultiResponse, error) { return f.conn.Multi(ops...) })
}

// explain makes the error of a request of err, which came from go-zookeeper. What the server answered is certain.
func (f *Fence) explain(did string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, zk.ErrNoServer):
		err = fmt.Errorf("%w: no server can be reached: %w", driver.ErrUnavailable, err)
	case errors.Is(err, zk.ErrNoAuth):
		err = fmt.Errorf("the ACL denies this user read, create, write or delete: %w", err)
	case errors.Is(err, zk.ErrConnectionClosed), errors.Is(err, zk.ErrClosing), errors.Is(err, zk.ErrSessionExpired),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("%w: no answer from ZooKeeper: %w", driver.ErrUnknown, err)
	}
	return f.place.Explain(did, err)
}

// Guard writes for one holder, whose token is registered. Its writes are refused, with errors that match fence.ErrStale, from the moment at which a
// greater token is registered. Safe for concurrent use.
type Guard struct {
	fence *Fence
	token lockport.Token
	lock  string // the lock's node, checked too; empty: not
}

// Token is the holder's.
func (g *Guard) Token() lockport.Token { return g.token }

// Checks are the conditions under which the holder may write, for a multi of your own that begins with them: the fence has its token and, after
// RegisterLock, the lock's node is there. Each is a *zk.CheckVersionRequest and has an answer of its own.
func (g *Guard) Checks() []any { return append([]any{check(g.child())}, g.held()...) }

// held are the conditions for the lock itself.
func (g *Guard) held() []any {
	if g.lock == "" {
		return nil
	}
	return []any{check(g.lock)}
}

// check is the condition that a node is there.
func check(path string) any { return &zk.CheckVersionRequest{Path: path, Version: -1} }

// child is the node that is there while the token is the latest.
func (g *Guard) child() string { return g.fence.place.Key + "/" + g.fence.place.Format(g.token) }

// Multi carries out ops, which are those of zk.Conn.Multi, in one transaction if the token is still the latest. The answers are theirs, in order.
// If one of them fails, none has an effect, and the error matches that of ZooKeeper.
func (g *Guard) Multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	checks := g.Checks()
	results, err := g.fence.multi(ctx, slices.Concat(checks, ops))
	switch {
	case len(results) < len(checks):
		return nil, g.fence.explain("write", err)
	case errors.Is(results[0].Error, zk.ErrNoNode):
		return nil, g.why(ctx)
	case len(checks) > 1 && errors.Is(results[1].Error, zk.ErrNoNode):
		return nil, g.fence.place.Lost(g.lock)
	}
	return results[len(checks):], g.fence.explain("write", err)
}

// why is the error of a write for which the fence was not as it should be.
func (g *Guard) why(ctx context.Context) error {
	seen, _, err := g.fence.look(ctx)
	latest := g.fence.latest(seen)
	if err == nil && latest == g.fence.place.Format(g.token) { // read from a server that is behind, or registered anew
		err = errors.New("it is not known which is")
	} else if err == nil || errors.Is(err, zk.ErrNoNode) {
		return g.fence.place.Refuse(g.token, latest)
	}
	return g.fence.place.Explain("write", fmt.Errorf("%w: token %d is not the latest: %w", fence.ErrStale, g.token, err))
}

// Set sets the data of the node path, whose version must be version; -1: whatever it is.
func (g *Guard) Set(ctx context.Context, path string, data []byte, version int32) (*zk.Stat, error) {
	results, err := g.Multi(ctx, &zk.SetDataRequest{Path: path, Data: data, Version: version})
	if err != nil {
		return nil, err
	}
	return results[0].Stat, nil
}
