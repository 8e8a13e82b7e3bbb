package servers

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockport/lockport/internal/lab/worker"
)

// node is one server of a group.
type node interface {
	running
	Addr() string
	self() *Server
}

// group is the common part of all groups of servers.
type group[N node] struct {
	// Nodes are the servers of the group.
	Nodes []N
}

// Servers returns the Server of each node, in the order of Nodes.
func (g *group[N]) Servers() (all []*Server) {
	for _, n := range g.Nodes {
		all = append(all, n.self())
	}
	return all
}

// Addrs returns the nodes' addresses, in the order of Nodes.
func (g *group[N]) Addrs() (all []string) {
	for _, n := range g.Nodes {
		all = append(all, n.Addr())
	}
	return all
}

// Log returns the end of each node's log, for messages.
func (g *group[N]) Log() (all string) {
	for _, n := range g.Nodes {
		all += fmt.Sprintf("--- %s\n%s", n.Addr(), n.Log())
	}
	return all
}

// Close ends the nodes and removes their folders.
func (g *group[N]) Close() (err error) {
	for _, n := range g.Nodes {
		err = errors.Join(err, n.Close())
	}
	return err
}

// startAll starts n nodes concurrently, because a node may need the others to become ready. Nodes that started are in the group even if others
// failed. It returns the first error.
func (g *group[N]) startAll(ctx context.Context, n int, start func(ctx context.Context, i int) (N, error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	nodes := make([]N, n)
	errs := worker.AtOnce(nodes, func(i int, _ N) (err error) {
		if nodes[i], err = start(ctx, i); err != nil {
			cancel(err)
		}
		return err
	})
	for i, err := range errs {
		if err == nil {
			g.Nodes = append(g.Nodes, nodes[i])
		}
	}
	if worker.First(errs) == nil {
		return nil
	}
	return context.Cause(ctx)
}
