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

// group is what all groups of servers have in common.
type group[N node] struct {
	// Nodes are the servers of the group.
	Nodes []N
}

// Servers are what the nodes have in common, in their order.
func (g *group[N]) Servers() (all []*Server) {
	for _, n := range g.Nodes {
		all = append(all, n.self())
	}
	return all
}

// Addrs are the nodes' addresses, for a client to begin with.
func (g *group[N]) Addrs() (all []string) {
	for _, n := range g.Nodes {
		all = append(all, n.Addr())
	}
	return all
}

// Log is the end of what the nodes printed, for messages.
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

// startAll starts n nodes at once: a node may not become ready without the others. It leaves those that have started in the group, and
// returns the first error.
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
	if len(g.Nodes) < n {
		return context.Cause(ctx)
	}
	return nil
}
