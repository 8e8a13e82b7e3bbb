package worlds

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/servers"
)

// Node is one server that grants locks. Safe for concurrent use.
type Node interface {
	// Addr is where it listens.
	Addr() string
	// Kill ends it with SIGKILL, Stop in order, and Restart starts it again, after Stop if it runs, with what it has kept.
	Kill() error
	Stop() error
	Restart(ctx context.Context) error
	// Freeze stops it with SIGSTOP, and Thaw lets it go on.
	Freeze() error
	Thaw() error
}

// Nodes are the servers that grant the locks of w together, in the order of the links of its seats. None where that is a folder, or a server that another
// one may replace: see Replace.
func Nodes(w *faults.World) []Node {
	var nodes []Node
	switch s := w.Servers.(type) {
	case *redisServer:
		nodes = append(nodes, s.Redis)
	case *redlockNodes:
		for _, n := range s.nodes {
			nodes = append(nodes, n)
		}
	case cluster:
		for _, m := range s.members() {
			nodes = append(nodes, m)
		}
	case *onePostgres:
		nodes = append(nodes, s.server)
	case *oneMySQL:
		nodes = append(nodes, s.server)
	}
	return nodes
}

// Leader is the index in Nodes of the one that leads, of several that make up one system.
func Leader(ctx context.Context, w *faults.World) (int, error) {
	c, ok := w.Servers.(cluster)
	if !ok || len(c.members()) == 1 {
		return 0, fmt.Errorf("nobody leads in %s", w.Title)
	}
	return c.lead(ctx)
}

// Remove takes the lock on name away from its holder, at the servers, as an operator does with their own tools. The history says so.
func Remove(ctx context.Context, p *faults.Phase, name string) error {
	p.Note("%s%s", faults.Removed, name)
	switch s := p.World.Servers.(type) {
	case *redisServer:
		return redisDeletes(ctx, p, name)
	case *redlockNodes:
		return redlockDeletes(ctx, p, name)
	case *etcds:
		return s.deleteKey(ctx, name)
	case *zooKeepers:
		return deleteNode(ctx, p, name)
	case *folder:
		return removeLockFile(ctx, p, name)
	case ender:
		return s.endClaim(ctx, name)
	}
	return fmt.Errorf("nothing is known of how an operator takes a lock away in %s", p.World.Title)
}

// Lag has the replica of a Redis hear nothing of its master from now on, until Replace.
func Lag(w *faults.World) error {
	pair, ok := w.Servers.(*redisPair)
	if !ok {
		return fmt.Errorf("no link between servers can be cut in %s", w.Title)
	}
	pair.link.Freeze()
	return nil
}

// Replace kills a Redis or a PostgreSQL, has its replica take its place, and leads there who asks from now on. A Redis follows then, in the other's place.
func Replace(ctx context.Context, p *faults.Phase) error {
	switch s := p.World.Servers.(type) {
	case *redisPair:
		return redisMasterReplacedAtOnce(ctx, s)
	case *postgresPair:
		return failOverUnheard(ctx, p, "")
	}
	return fmt.Errorf("there is nothing to take the place of the server in %s", p.World.Title)
}

// redisMasterReplacedAtOnce kills the master and promotes the replica, which has the other one, started again, as its replica.
func redisMasterReplacedAtOnce(ctx context.Context, w *redisPair) error {
	if err := w.master.Kill(); err != nil {
		return err
	}
	if err := w.promote(ctx); err != nil {
		return err
	}
	return w.follow(ctx)
}

// LoseDisk kills the server with this index in Nodes, of several that make up one system, has it lose its disk and starts it again, and says whether it came back.
// Where it did not, it has its disk again, and is down. ctx bounds its start.
func LoseDisk(ctx context.Context, w *faults.World, i int) (back bool, err error) {
	switch s := w.Servers.(type) {
	case *etcds:
		return s.loseDisk(ctx, s.nodes[i])
	case *zooKeepers:
		node := s.nodes[i]
		if err := errors.Join(node.Kill(), node.WipeData()); err != nil {
			return false, err
		}
		return true, node.Restart(ctx)
	}
	return false, fmt.Errorf("there is no disk to be lost in %s", w.Title)
}

// loseDisk keeps the disk: etcd does not let a member back in that has forgotten everything.
func (w *etcds) loseDisk(ctx context.Context, node *servers.Etcd) (back bool, err error) {
	disk := filepath.Join(node.Dir(), "data")
	kept := disk + ".kept"
	if err := errors.Join(node.Kill(), os.Rename(disk, kept)); err != nil {
		return false, err
	}
	if node.Restart(ctx) == nil {
		return true, os.RemoveAll(kept)
	}
	return false, errors.Join(node.Kill(), os.RemoveAll(disk), os.Rename(kept, disk))
}

// Folder is the folder that has the locks of w, and an error where they are on servers.
func Folder(w *faults.World) (string, error) {
	f, ok := w.Servers.(*folder)
	if !ok {
		return "", fmt.Errorf("the locks of %s are in no folder", w.Title)
	}
	return f.path, nil
}
