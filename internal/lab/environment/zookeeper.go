package environment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockport/lockport/internal/lab/servers"
)

// zooKeeperTTL is twenty ticks of the servers.
const zooKeeperTTL = 2 * time.Second

// zooKeeperSync is how many ticks of 100 ms nodes hear nothing from each other until they believe it. With fewer a busy machine elects leaders that nobody asked
// for; with more, a session is over when a leader has fallen silent.
const zooKeeperSync = "syncLimit=15"

var (
	zooKeeperEnvironment = zooKeeperOf("zookeeper", "three ZooKeepers", zooKeeperTTL, func(ctx context.Context) (Servers, error) {
		e, err := servers.StartEnsemble(ctx, servers.ZooKeeperOptions{Config: []string{zooKeeperSync}})
		if err != nil {
			return nil, err
		}
		return &ZooKeeper{members: membersOf("three ZooKeepers", e, e.Nodes...), ttl: zooKeeperTTL}, nil
	})
	zooKeeperAlone = zooKeeperOf("zookeeper-alone", "one ZooKeeper", patientTTL, startZooKeeper(patientTTL))
	zooKeeperSuite = zooKeeperOf("zookeeper-suite", "one ZooKeeper with short sessions", zooKeeperTTL, startZooKeeper(zooKeeperTTL))
)

func startZooKeeper(ttl time.Duration) func(ctx context.Context) (Servers, error) {
	return func(ctx context.Context) (Servers, error) {
		z, err := servers.StartZooKeeper(ctx, servers.ZooKeeperOptions{})
		if err != nil {
			return nil, err
		}
		return &ZooKeeper{members: membersOf("one ZooKeeper", nil, z), ttl: ttl}, nil
	}
}

func zooKeeperOf(name, title string, ttl time.Duration, start func(ctx context.Context) (Servers, error)) Environment {
	return Environment{
		Name: name, Title: title, Backend: "zookeeper", TTL: ttl, Margin: marginOf(ttl), Tokens: true,
		RemovalNotice: 500 * time.Millisecond, Needs: []string{"zookeeper"}, Start: start,
	}
}

// ZooKeeper is one ZooKeeper or an ensemble.
type ZooKeeper struct {
	members[*servers.ZooKeeper]
	ttl time.Duration

	mu      sync.Mutex
	foreign *zk.Conn // somebody else's session
}

// URL implements Servers.
func (z *ZooKeeper) URL(addrs []string) string {
	return fmt.Sprintf("zookeeper://%s/?ttl=%v", strings.Join(addrs, ","), z.ttl)
}

// Close implements Servers.
func (z *ZooKeeper) Close() error {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.foreign != nil {
		z.foreign.Close()
	}
	return z.members.Close()
}

// Heal implements Servers.
func (z *ZooKeeper) Heal(ctx context.Context) error {
	return inOrder(ctx, z.members.Heal, func(ctx context.Context) error {
		return AtOnce(z.all, func(node *servers.ZooKeeper) error { return zooKeeperServes(ctx, node) })
	})
}

// Restart restarts one that stands alone.
func (z *ZooKeeper) Restart(ctx context.Context, keepData bool) error {
	if z.system != nil {
		return z.base.Restart(ctx, keepData)
	}
	if keepData {
		return z.all[0].Restart(ctx)
	}
	return inOrder(ctx, now(z.all[0].Stop), now(z.all[0].WipeData), z.all[0].Restart)
}

// LoseDisk implements Servers.
func (z *ZooKeeper) LoseDisk(ctx context.Context, i int) (back bool, err error) {
	if err := errors.Join(z.all[i].Kill(), z.all[i].WipeData()); err != nil {
		return false, err
	}
	return true, z.all[i].Restart(ctx)
}

// zooKeeperServes waits until a quorum has written something through a node. That the node calls itself leader or follower is not enough: it does so for a while
// after it has lost the others.
func zooKeeperServes(ctx context.Context, node *servers.ZooKeeper) error {
	return Eventually(ctx, func(ctx context.Context) error {
		return atZooKeeper(ctx, node, func(c *zk.Conn) error {
			_, err := c.Create("/serves-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
			return err
		})
	})
}

// atZooKeeper lends a client of one node, in a session of its own, until ctx ends.
func atZooKeeper(ctx context.Context, node *servers.ZooKeeper, use func(c *zk.Conn) error) error {
	c, err := dialZooKeeper(node.Addr())
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, c.Close)() // it knows no contexts
	return use(c)
}

func dialZooKeeper(addrs ...string) (*zk.Conn, error) {
	c, _, err := zk.Connect(addrs, 10*time.Second, zk.WithLogger(quiet{}), zk.WithLogInfo(false), zk.WithDialer(servers.DialZooKeeper))
	return c, err
}

// quiet is a logger that says nothing.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// zooKeeperNode is the parent of the claims on name: percent-encoded byte by byte, save letters, digits, _ and -.
func zooKeeperNode(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// claims are the nodes of the claims on name, the holder's first.
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

// withClaim calls use with the node of the claim that holds the lock on name.
func (z *ZooKeeper) withClaim(ctx context.Context, name string, use func(c *zk.Conn, path string) error) error {
	return atZooKeeper(ctx, z.all[0], func(c *zk.Conn) error {
		paths, err := claims(c, name)
		switch {
		case err != nil:
			return err
		case len(paths) == 0:
			return ErrNotHeld
		}
		return use(c, paths[0])
	})
}

// Remove deletes the node of the claim that holds the lock on name.
func (z *ZooKeeper) Remove(ctx context.Context, name string) error {
	return z.withClaim(ctx, name, func(c *zk.Conn, path string) error {
		err := c.Delete(path, -1)
		if errors.Is(err, zk.ErrNoNode) {
			err = ErrNotHeld
		}
		return err
	})
}

// EndSession ends the session of the claim that holds the lock on name.
func (z *ZooKeeper) EndSession(ctx context.Context, name string) error {
	return z.withClaim(ctx, name, func(c *zk.Conn, path string) error {
		_, node, err := c.Exists(path)
		if err != nil {
			return err
		}
		return z.all[0].EndSession(ctx, node.EphemeralOwner)
	})
}

// Overwrite adds the node of somebody else, as Curator would, and deletes those before it.
func (z *ZooKeeper) Overwrite(_ context.Context, name string) (err error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.foreign == nil {
		if z.foreign, err = dialZooKeeper(z.Addrs()...); err != nil {
			return err
		}
	}
	c, parent := z.foreign, "/"+zooKeeperNode(name)
	if _, err := c.CreateContainer(parent, nil, zk.FlagContainer, zk.WorldACL(zk.PermAll)); err != nil && !errors.Is(err, zk.ErrNodeExists) {
		return err
	}
	own, err := c.CreateProtectedEphemeralSequential(parent+"/lock-", []byte("10.0.0.1"), zk.WorldACL(zk.PermAll))
	if err != nil {
		return err
	}
	paths, err := claims(c, name)
	if err != nil {
		return err
	}
	for _, path := range paths[:max(0, slices.Index(paths, own))] {
		if err := c.Delete(path, -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	return nil
}

// Leftovers implements Servers. Empty containers stay until the server removes them.
func (z *ZooKeeper) Leftovers(ctx context.Context, prefix string) (left []string, err error) {
	err = atZooKeeper(ctx, z.all[0], func(c *zk.Conn) error {
		if _, err := c.Sync("/"); err != nil {
			return err
		}
		nodes, _, err := c.Children("/")
		if err != nil {
			return err
		}
		for _, node := range nodes {
			if !strings.HasPrefix(node, zooKeeperNode(prefix)) {
				continue
			}
			children, _, err := c.Children("/" + node)
			if err != nil && !errors.Is(err, zk.ErrNoNode) {
				return err
			}
			for _, child := range children {
				left = append(left, "/"+node+"/"+child)
			}
		}
		return nil
	})
	return left, err
}
