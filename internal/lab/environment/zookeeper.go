package environment

import (
	"context"
	"errors"
	"io"
	"log"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockport/lockport/internal/lab/servers"
)

// zooKeeperSync is how many ticks of 100 ms a node waits for a silent peer. With fewer, a busy machine causes needless elections. With more,
// sessions expire before a silent leader is replaced.
const zooKeeperSync = "syncLimit=15"

// ZooKeeper is one ZooKeeper or an ensemble.
type ZooKeeper struct {
	base
	first *servers.ZooKeeper
}

var startEnsemble = starts(servers.StartEnsemble, servers.ZooKeeperOptions{Config: []string{zooKeeperSync}},
	func(e *servers.Group[*servers.ZooKeeper]) *ZooKeeper {
		return &ZooKeeper{baseOf(func() string { return withTTL(e.URL(), usualTTL) }, &e.Set), e.Nodes[0]}
	})

func startZooKeeper(ttl time.Duration) starter {
	return starts(servers.StartZooKeeper, servers.ZooKeeperOptions{}, func(s *servers.ZooKeeper) *ZooKeeper {
		z := &ZooKeeper{baseOf(func() string { return withTTL(s.URL(), ttl) }, servers.SetOf(s.Server)), s}
		z.restarts, z.forgets = true, true
		return z
	})
}

// use calls f with a client of the first server, in a new session, until ctx ends.
func (z *ZooKeeper) use(ctx context.Context, f func(c *zk.Conn) error) error {
	c := z.dial()
	defer c.Close()
	defer context.AfterFunc(ctx, c.Close)() // the client has no contexts
	return f(c)
}

// dial makes a client, which connects and reconnects in the background.
func (z *ZooKeeper) dial() *zk.Conn {
	silent := log.New(io.Discard, "", 0)
	c, _, _ := zk.Connect([]string{z.first.Addr()}, 10*time.Second, zk.WithLogger(silent), zk.WithLogInfo(false)) // it fails only without addresses
	return c
}

// zooKeeperNode returns the parent node of the claims on name: the name percent-encoded byte by byte, except letters, digits, _ and -.
func zooKeeperNode(name string) string {
	return strings.NewReplacer("+", "%20", ".", "%2E", "~", "%7E").Replace(url.QueryEscape(name))
}

// claims returns the nodes of the claims on name, the holder's first.
func claims(c *zk.Conn, name string) (paths []string, err error) {
	parent := "/" + zooKeeperNode(name)
	nodes, _, err := c.Children(parent)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	number := func(node string) string { return node[max(0, len(node)-10):] }
	slices.SortFunc(nodes, func(a, b string) int { return strings.Compare(number(a), number(b)) })
	for _, node := range nodes {
		paths = append(paths, parent+"/"+node)
	}
	return paths, err
}

// withClaim calls use with the node of the claim that holds the lock on name, or with each reader's node.
func (z *ZooKeeper) withClaim(ctx context.Context, name string, use func(c *zk.Conn, path string) error) error {
	return z.use(ctx, func(c *zk.Conn) error {
		paths, err := claims(c, name)
		if err == nil && len(paths) == 0 {
			err = zk.ErrNoNode
		}
		for i, path := range paths {
			if err == nil && (i == 0 || isReader(paths[0]) && isReader(path)) {
				err = use(c, path)
			}
		}
		if errors.Is(err, zk.ErrNoNode) {
			err = ErrNotHeld
		}
		return err
	})
}

// isReader reports whether a node belongs to a reader, of lockport or of Curator's InterProcessReadWriteLock.
func isReader(path string) bool {
	return strings.Contains(path, "-read-lock-") || strings.Contains(path, "-__READ__")
}

// Remove deletes the node of the claim that holds the lock on name, or each reader's node.
func (z *ZooKeeper) Remove(ctx context.Context, name string) error {
	return z.withClaim(ctx, name, func(c *zk.Conn, path string) error { return c.Delete(path, -1) })
}

// EndSession ends the session of the claim that holds the lock on name.
func (z *ZooKeeper) EndSession(ctx context.Context, name string) error {
	return z.withClaim(ctx, name, func(c *zk.Conn, path string) error {
		_, node, err := c.Exists(path)
		if err != nil {
			return err
		}
		return z.first.EndSession(ctx, node.EphemeralOwner)
	})
}

// Overwrite adds a foreign claim's node, as Curator would, and deletes the nodes before it.
func (z *ZooKeeper) Overwrite(ctx context.Context, name string) error {
	parent, open := "/"+zooKeeperNode(name), zk.WorldACL(zk.PermAll)
	foreign := z.dial() // a new client: after a server's restart, an old one may wait a minute for an answer that never comes
	context.AfterFunc(z.open, foreign.Close)
	if _, err := foreign.CreateContainer(parent, nil, zk.FlagContainer, open); err != nil && !errors.Is(err, zk.ErrNodeExists) {
		return err
	}
	own, err := foreign.CreateProtectedEphemeralSequential(parent+"/lock-", []byte("10.0.0.1"), open)
	if errors.Is(err, zk.ErrNoNode) { // the server has just removed the empty container
		return z.Overwrite(ctx, name)
	}
	if err != nil {
		return err
	}
	paths, err := claims(foreign, name)
	for _, path := range paths[:max(0, slices.Index(paths, own))] {
		if failed := foreign.Delete(path, -1); !errors.Is(failed, zk.ErrNoNode) {
			err = errors.Join(err, failed)
		}
	}
	return err
}

// Leftovers implements Locks. It ignores empty containers, which the server removes later.
func (z *ZooKeeper) Leftovers(ctx context.Context, prefix string) (left []string, err error) {
	err = z.use(ctx, func(c *zk.Conn) error {
		if _, err := c.Sync("/"); err != nil {
			return err
		}
		nodes, _, err := c.Children("/")
		for _, node := range nodes {
			if !strings.HasPrefix(node, zooKeeperNode(prefix)) {
				continue
			}
			children, _, failed := c.Children("/" + node)
			if !errors.Is(failed, zk.ErrNoNode) {
				err = errors.Join(err, failed)
			}
			for _, child := range children {
				left = append(left, "/"+node+"/"+child)
			}
		}
		return err
	})
	return left, err
}
