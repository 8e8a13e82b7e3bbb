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
	conn *zk.Conn
	path string
	acl  []zk.ACL
}

// New makes a fence at the node path, "/fences/account-7", on conn. It does no I/O, needs no closing, and does not close conn.
func New(conn *zk.Conn, path string, o Options) (*Fence, error) {
	switch {
	case conn == nil:
		return nil, errors.New("zkfence: the connection is nil")
	case len(path) < 2 || path[0] != '/' || strings.HasSuffix(path, "/") || strings.Contains(path, "//"):
		return nil, fmt.Errorf("zkfence: the path %q is not one of a node: want \"/fences/name\"", path)
	case path == "/zookeeper" || strings.HasPrefix(path, "/zookeeper/"):
		return nil, fmt.Errorf("zkfence: the path %q is ZooKeeper's own", path)
	}
	if len(o.ACL) == 0 {
		o.ACL = zk.WorldACL(zk.PermAll)
	}
	return &Fence{conn: conn, path: path, acl: slices.Clone(o.ACL)}, nil
}

// Path is the fence's node. Delete it, with its child, when the data that it guards are gone, and no holder is left.
func (f *Fence) Path() string { return f.path }

// Register says that token's holder is the latest and returns the guard for its writes: a list and a multi, and more requests for the first of all.
// A holder registers before it reads. Registering a token again, at once or later, is no error as long as no greater one is registered.
//
// The error matches fence.ErrStale if a greater token is registered; that holder has the lock, or had it after this one.
func (f *Fence) Register(ctx context.Context, token lockport.Token) (*Guard, error) {
	return f.register(ctx, token, "")
}

// RegisterLock is Register with the token of l, a lock on the same ZooKeeper. The lock's own node is checked here and by every write: the error matches
// lockport.ErrLost, and fence.ErrStale, once the lock is gone.
func (f *Fence) RegisterLock(ctx context.Context, l *lockport.Lock) (*Guard, error) {
	var n zookeeper.Node
	if !l.As(&n) {
		return nil, errors.New("zkfence: RegisterLock needs a lock of the backend zookeeper: use Register with the token of any other")
	}
	token, _ := l.Token()
	return f.register(ctx, token, n.Path)
}

func (f *Fence) register(ctx context.Context, token lockport.Token, lock string) (*Guard, error) {
	if err := fence.Check("", token, 0); err != nil {
		return nil, fmt.Errorf("zkfence: %w", err)
	}
	g := &Guard{fence: f, token: token, lock: lock}
	var err error
	for range attempts {
		err = g.register(ctx)
		switch {
		case err == nil:
			return g, nil
		case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrBadVersion):
		default:
			return nil, err
		}
	}
	return nil, err
}

// attempts are made to register while others do at the same time. Each loses against one that has succeeded.
const attempts = 100

// register makes one attempt. That somebody came in between is an error of ZooKeeper about nodes or versions.
func (g *Guard) register(ctx context.Context) error {
	f := g.fence
	seen, version, err := f.look(ctx)
	if errors.Is(err, zk.ErrNoNode) {
		if err = f.create(ctx, f.path); err != nil {
			return g.explain("register", err)
		}
		seen, version, err = f.look(ctx)
	}
	if err != nil {
		return g.explain("register", err)
	}
	if latest := latest(seen); latest != fencecheck.Missing {
		if n, ok := parse(latest); !ok || n > g.token {
			return g.refused(latest)
		}
	}
	checks := g.held()
	var ops []any
	if len(seen) == 1 && seen[0] == format(g.token) {
		// What was read may be old: the leader has the last word.
		ops = []any{&zk.CheckVersionRequest{Path: g.child(), Version: -1}}
	} else {
		ops = []any{&zk.SetDataRequest{Path: f.path, Data: []byte(format(g.token)), Version: version}}
		for _, old := range seen {
			ops = append(ops, &zk.DeleteRequest{Path: f.path + "/" + old, Version: -1})
		}
		ops = append(ops, &zk.CreateRequest{Path: g.child(), Acl: f.acl})
	}
	results, err := f.multi(ctx, append(checks, ops...))
	if len(checks) > 0 && len(results) > 0 && errors.Is(results[0].Error, zk.ErrNoNode) {
		return g.lost()
	}
	return g.explain("register", err)
}

// look lists the fence's children, which are tokens in order, but for those that somebody else put there, and the version of its node.
func (f *Fence) look(ctx context.Context) (seen []string, version int32, err error) {
	type list struct {
		children []string
		stat     *zk.Stat
	}
	l, err := await(ctx, func() (list, error) {
		children, stat, err := f.conn.Children(f.path)
		return list{children, stat}, err
	})
	if err != nil {
		return nil, 0, err
	}
	slices.Sort(l.children)
	return l.children, l.stat.Version, nil
}

// latest is the greatest of the fence's children, or one that is no token.
func latest(seen []string) string {
	last := fencecheck.Missing
	for _, s := range seen {
		if _, ok := parse(s); !ok {
			return s
		}
		last = s
	}
	return last
}

// create creates the fence's node, and what is above it.
func (f *Fence) create(ctx context.Context, path string) error {
	for {
		_, err := await(ctx, func() (string, error) { return f.conn.Create(path, nil, 0, f.acl) })
		switch {
		case err == nil, errors.Is(err, zk.ErrNodeExists):
			return nil
		case !errors.Is(err, zk.ErrNoNode):
			return err
		}
		above := path[:strings.LastIndexByte(path, '/')]
		if above == "" {
			return fmt.Errorf("the root is missing, or the chroot of the connection: %w", errNoRoot)
		}
		if err := f.create(ctx, above); err != nil {
			return err
		}
	}
}

var errNoRoot = errors.New("create it first")

func (f *Fence) multi(ctx context.Context, ops []any) ([]zk.MultiResponse, error) {
	return await(ctx, func() ([]zk.MultiResponse, error) { return f.conn.Multi(ops...) })
}

// digits is the length of the name of a token's node, which the greatest token has.
const digits = 20

// format is the name of a token's node.
func format(token lockport.Token) string { return fmt.Sprintf("%0*d", digits, uint64(token)) }

// parse reads the name of a token's node. false: it is none.
func parse(name string) (lockport.Token, bool) {
	token, ok := fencecheck.Parse(name)
	return token, ok && len(name) == digits
}
