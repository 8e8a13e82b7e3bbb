package zkfence

import (
	"cmp"
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
	// ACL is the ACL of created nodes. It must let the holders read, create, write and delete. Default: everything for everybody.
	ACL []zk.ACL
}

// Fence keeps the latest holder's token in one node with one child. Safe for concurrent use.
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
		return nil, fmt.Errorf("zkfence: the path %q is not a valid node path: want \"/fences/name\"", path)
	case path == "/zookeeper" || strings.HasPrefix(path, "/zookeeper/"):
		return nil, fmt.Errorf("zkfence: the path %q is ZooKeeper's own", path)
	}
	if len(o.ACL) == 0 {
		o.ACL = zk.WorldACL(zk.PermAll)
	}
	return &Fence{conn, fencecheck.Place{Package: "zkfence", Key: path, Digits: fencecheck.Padding}, slices.Clone(o.ACL)}, nil
}

// Path is the fence's node. Delete it, with its child, when the guarded data are gone and no holder is left.
func (f *Fence) Path() string { return f.place.Key }

// Register makes token's holder the latest and returns the guard for its writes, in one list and one multi; the first registration of a fence takes
// more requests. A holder registers before it reads. You may register a token again at any time while no greater one is registered.
//
// The error matches fence.ErrStale if a greater token is registered: its holder has the lock, or had it after this one.
func (f *Fence) Register(ctx context.Context, token lockport.Token) (*Guard, error) {
	return f.register(ctx, token, "")
}

// RegisterLock is Register with the token of l, a lock on the same ZooKeeper. RegisterLock and every write also check the lock's own node: the error
// matches lockport.ErrLost and fence.ErrStale once the lock is gone.
func (f *Fence) RegisterLock(ctx context.Context, l *lockport.Lock) (*Guard, error) {
	var node zookeeper.Node
	token, err := f.place.Holder(l, "zookeeper", &node)
	if err != nil {
		return nil, err
	}
	if node.Path == "" { // the hold has ended, and its node was deleted
		return nil, f.place.Lost(l.Name())
	}
	return f.register(ctx, token, node.Path)
}

// attempts bounds the attempts against concurrent registrations. An attempt fails only if another one succeeded, or the fence's node was missing.
const attempts = 100

func (f *Fence) register(ctx context.Context, token lockport.Token, lock string) (*Guard, error) {
	err := fence.Check("", token, 0)
	if err != nil {
		return nil, f.place.Explain("register", err)
	}
	g := &Guard{fence: f, token: token, lock: lock}
	for range attempts {
		if err = g.register(ctx); err == nil {
			return g, nil
		} else if !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrBadVersion) {
			break
		}
	}
	return nil, err
}

// register makes one attempt. If another registration intervened, or a node was missing, it returns a ZooKeeper error about nodes or versions.
func (g *Guard) register(ctx context.Context) error {
	f := g.fence
	seen, version, err := f.look(ctx)
	if errors.Is(err, zk.ErrNoNode) { // the next attempt reads it: a copy that somebody else made has version 0 and a token
		err = cmp.Or(f.create(ctx, f.place.Key), err)
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
		ops = append(ops, check(g.child())) // the list may be stale: the leader decides
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

// look returns the fence's children and its node's version.
func (f *Fence) look(ctx context.Context) (children []string, version int32, err error) {
	var stat *zk.Stat
	children, err = fencecheck.Await(ctx, func() (children []string, err error) {
		children, stat, err = f.conn.Children(f.place.Key)
		return children, err
	})
	if err != nil { // the call may still be under way, and write stat
		return nil, 0, err
	}
	return children, stat.Version, nil
}

// latest is the greatest of the fence's children, or "no token" if one of them is not a token.
func (f *Fence) latest(seen []string) string {
	last := fencecheck.Missing
	for _, s := range seen {
		if _, ok := f.place.Parse(s); !ok {
			return "no token"
		}
		last = max(last, s)
	}
	return last
}

// create creates the fence's node and its parents.
func (f *Fence) create(ctx context.Context, path string) error {
	_, err := fencecheck.Await(ctx, func() (string, error) { return f.conn.Create(path, nil, 0, f.acl) })
	if errors.Is(err, zk.ErrNoNode) {
		above := path[:strings.LastIndexByte(path, '/')]
		if above == "" {
			return errors.New("the root, or the connection's chroot, is missing: create it first")
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

// explain wraps an error from go-zookeeper. What the server answered is certain.
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

// Guard writes for one holder, whose token is registered. Once a greater token is registered, its writes are refused with errors that match
// fence.ErrStale. Safe for concurrent use.
type Guard struct {
	fence *Fence
	token lockport.Token
	lock  string // the lock's node, also checked, unless empty
}

// Token is the holder's token.
func (g *Guard) Token() lockport.Token { return g.token }

// held returns the condition for the lock itself.
func (g *Guard) held() []any {
	if g.lock == "" {
		return nil
	}
	return []any{check(g.lock)}
}

// check is the condition that a node exists.
func check(path string) any { return &zk.CheckVersionRequest{Path: path, Version: -1} }

// child is the node that exists while the token is the latest.
func (g *Guard) child() string { return g.fence.place.Key + "/" + g.fence.place.Format(g.token) }

// Multi executes ops, as zk.Conn.Multi does, in one transaction if the token is still the latest. The responses are theirs, in order. If one
// fails, none has an effect, and the error matches ZooKeeper's.
func (g *Guard) Multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	all := append([]any{check(g.child())}, g.held()...)
	checks := len(all)
	for _, op := range ops {
		all = append(all, copied(op))
	}
	results, err := g.fence.multi(ctx, all)
	switch {
	case len(results) < checks:
		return nil, g.fence.explain("write", err)
	case errors.Is(results[0].Error, zk.ErrNoNode):
		return nil, g.why(ctx)
	case checks > 1 && errors.Is(results[1].Error, zk.ErrNoNode):
		return nil, g.fence.place.Lost(g.lock)
	}
	return results[checks:], g.fence.explain("write", err)
}

// copied is a copy of an operation. The client library may send it after the call has returned, when the caller may change its own.
func copied(op any) any {
	switch op := op.(type) {
	case *zk.CreateRequest:
		return &zk.CreateRequest{Path: op.Path, Data: slices.Clone(op.Data), Acl: slices.Clone(op.Acl), Flags: op.Flags}
	case *zk.SetDataRequest:
		return &zk.SetDataRequest{Path: op.Path, Data: slices.Clone(op.Data), Version: op.Version}
	case *zk.DeleteRequest:
		return &zk.DeleteRequest{Path: op.Path, Version: op.Version}
	case *zk.CheckVersionRequest:
		return &zk.CheckVersionRequest{Path: op.Path, Version: op.Version}
	}
	return op // refused by the library
}

// why is the error of a write that the fence refused.
func (g *Guard) why(ctx context.Context) error {
	seen, _, err := g.fence.look(ctx)
	latest := g.fence.latest(seen)
	if latest == g.fence.place.Format(g.token) { // the server is behind, or the token was registered again
		err = errors.New("the latest is not known")
	} else if err == nil || errors.Is(err, zk.ErrNoNode) {
		return g.fence.place.Refuse(g.token, latest)
	}
	return g.fence.place.Explain("write", fmt.Errorf("%w: token %d is not the latest: %w", fence.ErrStale, g.token, err))
}

// Set sets the data of the node path if its version is version; -1 matches any version.
func (g *Guard) Set(ctx context.Context, path string, data []byte, version int32) (*zk.Stat, error) {
	results, err := g.Multi(ctx, &zk.SetDataRequest{Path: path, Data: data, Version: version})
	if err != nil {
		return nil, err
	}
	return results[0].Stat, nil
}
