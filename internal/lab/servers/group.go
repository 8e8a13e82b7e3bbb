package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/lockport/lockport/internal/lab/worker"
)

// Set is servers that belong together. Safe for concurrent use.
type Set struct {
	Servers []*Server
	// links are nil if no member can be cut from the others.
	links *quorumLinks
}

// SetOf returns a Set of servers.
func SetOf(all ...*Server) *Set { return &Set{Servers: all} }

// Addrs returns the servers' addresses.
func (s *Set) Addrs() (all []string) {
	for _, one := range s.Servers {
		all = append(all, one.Addr())
	}
	return all
}

// Log returns the end of each server's log, for messages.
func (s *Set) Log() (all string) {
	for _, one := range s.Servers {
		all += fmt.Sprintf("--- %s\n%s", one.Addr(), one.Log())
	}
	return all
}

// Close ends the servers and removes their folders.
func (s *Set) Close() error {
	errs := worker.AtOnce(s.Servers, func(_ int, one *Server) error { return one.Close() })
	return errors.Join(append(errs, s.links.close())...)
}

// leaderTime bounds the query to each server: a frozen one never answers.
const leaderTime = 250 * time.Millisecond

// Leader waits until exactly one member of a quorum reports that it leads, and returns its index. A member that is down, frozen or cut off does not
// lead, except for a moment after the fault. If the servers form no quorum, the error matches [errors.ErrUnsupported], as that of LoseDisk does.
func (s *Set) Leader(ctx context.Context) (leader int, err error) {
	if err := s.quorum(); err != nil {
		return 0, err
	}
	err = Poll(ctx, func(ctx context.Context) error {
		leaders := 0
		var errs []error
		for i, one := range s.Servers {
			asking, cancel := context.WithTimeout(ctx, leaderTime)
			leads, err := one.leads(asking, one)
			cancel()
			if leads {
				leader, leaders = i, leaders+1
			}
			errs = append(errs, err)
		}
		if leaders != 1 {
			return errors.Join(append(errs, fmt.Errorf("%d members report that they lead", leaders))...)
		}
		return nil
	})
	return leader, err
}

// LoseDisk kills a member of a quorum, wipes its disk and restarts it. A member that is not readmitted (etcd) gets its disk back and stays down.
func (s *Set) LoseDisk(ctx context.Context, i int) (back bool, err error) {
	if err := s.quorum(); err != nil {
		return false, err
	}
	one := s.Servers[i]
	disk := dataDir(one.Dir())
	kept := disk + ".kept"
	if err := errors.Join(one.Kill(), os.Rename(disk, kept), one.WipeData()); err != nil {
		return false, err
	}
	if one.Restart(ctx) == nil {
		return true, os.RemoveAll(kept)
	}
	return false, errors.Join(one.Kill(), os.RemoveAll(disk), os.Rename(kept, disk))
}

// quorum returns nil if the servers form a quorum.
func (s *Set) quorum() error {
	if len(s.Servers) == 0 || s.Servers[0].leads == nil {
		return fmt.Errorf("these servers form no quorum: %w", errors.ErrUnsupported)
	}
	return nil
}

// CutFromQuorum cuts member i from the others, silently, as a network partition does. Clients still reach it. Cuts add up.
func (s *Set) CutFromQuorum(i int) { s.links.cut(i) }

// Join ends all cuts. Data in flight between the members is lost, and they reconnect.
func (s *Set) Join() { s.links.join() }

// node is one server of a group.
type node interface {
	running
	self() *Server
}

// Group is a Set of servers of one type that were started together. Safe for concurrent use.
type Group[N node] struct {
	Set
	// Nodes are the Servers, with the methods of their type.
	Nodes  []N
	scheme string
}

// URL returns a lockport URL with all servers: "etcd://127.0.0.1:port,127.0.0.1:port", or for a Redis Cluster
// "redis+cluster://127.0.0.1:port?addr=127.0.0.1:port".
func (g *Group[N]) URL() string {
	addrs := g.Addrs()
	if strings.Contains(g.scheme, "+") {
		return g.scheme + "://" + addrs[0] + "?addr=" + strings.Join(addrs[1:], "&addr=")
	}
	return g.scheme + "://" + strings.Join(addrs, ",")
}

// quorumNodes is the size of an etcd cluster or a ZooKeeper ensemble. Two nodes are a majority, which can serve. A node's Restart returns when it
// serves, which needs a second running node.
const quorumNodes = 3

// starting is what a server of a group knows of it: its own index, the ports of all, and the SOCKS proxy to the others; empty: directly.
type starting struct {
	i     int
	ports []int
	proxy string
}

// startGroup starts n servers concurrently: one may need the others to become ready. Cuttable ones reach each other through links.
func startGroup[N node](ctx context.Context, scheme string, n int, cuttable bool, start func(context.Context, starting) (N, error)) (_ *Group[N], err error) {
	g := &Group[N]{scheme: scheme}
	var ports []int
	for range n {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	fronts := make([]net.Listener, n)
	if cuttable {
		if g.links, err = newQuorumLinks(ports); err != nil {
			return nil, err
		}
		fronts = g.links.fronts
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	nodes := make([]N, n)
	errs := worker.AtOnce(fronts, func(i int, front net.Listener) (err error) {
		s := starting{i: i, ports: ports}
		if front != nil {
			s.proxy = front.Addr().String()
		}
		if nodes[i], err = start(ctx, s); err != nil {
			cancel(err)
		}
		return err
	})
	for i, err := range errs {
		if err == nil {
			g.Nodes, g.Servers = append(g.Nodes, nodes[i]), append(g.Servers, nodes[i].self())
		}
	}
	if cmp.Or(errs...) != nil {
		return nil, errors.Join(context.Cause(ctx), g.Close())
	}
	return g, nil
}
