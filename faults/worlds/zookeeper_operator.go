package worlds

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockport/lockport/internal/lab/servers"
)

// zooKeeperServes waits until a quorum has written something through a node. That it has a name of its own, leader or follower, is not enough: it keeps that
// for a while when it has lost the others.
func zooKeeperServes(ctx context.Context, node *servers.ZooKeeper) error {
	return eventually(ctx, func(ctx context.Context) error {
		return atZooKeeper(ctx, node, func(c *zk.Conn) error {
			_, err := c.Create("/serves-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
			return err
		})
	})
}

// zooKeeperClaim is the node whose claim holds the lock on name, which needs no encoding: the one with the lowest number.
func zooKeeperClaim(c *zk.Conn, name string) (string, error) {
	nodes, _, err := c.Children("/" + name)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return "", err
	}
	if len(nodes) == 0 {
		return "", fmt.Errorf("%w: zookeeper has no node below /%s", errNotHeld, name)
	}
	number := func(node string) string { _, n, _ := strings.Cut(node, "-lock-"); return n }
	first := slices.MinFunc(nodes, func(a, b string) int { return strings.Compare(number(a), number(b)) })
	return "/" + name + "/" + first, nil
}

// atZooKeeper lends a client of one node, in a session of its own, until ctx ends.
func atZooKeeper(ctx context.Context, node *servers.ZooKeeper, use func(c *zk.Conn) error) error {
	c, _, err := zk.Connect([]string{node.Addr()}, 10*time.Second, zk.WithLogger(quiet{}), zk.WithDialer(servers.DialZooKeeper))
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, c.Close)() // it knows no contexts
	return use(c)
}

// quiet is a logger that says nothing.
type quiet struct{}

func (quiet) Printf(string, ...any) {}
