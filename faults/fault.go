package faults

import (
	"slices"
	"time"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/servers"
)

// underWay is how long what a server has said before it went may take to arrive, and what follows from it to happen.
const underWay = 500 * time.Millisecond

// fault begins when it is called, and ends when end is.
type fault func(s *scene) (end func())

// until is a fault of two acts.
func until(begin, end act) fault {
	return func(s *scene) func() {
		begin(s)
		return func() { end(s) }
	}
}

// nodes selects the servers that a fault hits.
type nodes func(s *scene) []environment.Node

// killed kills servers, and frozen stops them with SIGSTOP. At the end they run again, all at the same time.
func (n nodes) killed(s *scene) func() { return n.hit(s, environment.Node.Kill) }
func (n nodes) frozen(s *scene) func() { return n.hit(s, environment.Node.Freeze) }

func (n nodes) hit(s *scene, blow func(environment.Node) error) func() {
	those := n(s)
	for _, node := range those {
		s.Note("%s is hit", node.Addr())
	}
	check(environment.AtOnce(those, blow))
	return func() { check(environment.Revive(s.ctx, those...)) }
}

// restart restarts the server.
func (n nodes) restart(s *scene) { check(n(s)[0].Restart(s.ctx)) }

// wiped kills servers and starts them again at once, without their data.
func (n nodes) wiped(s *scene) {
	s.Note("servers are killed, lose their data and start again")
	check(environment.AtOnce(n(s), func(node environment.Node) error { return wipe(s, node) }))
}

// wipe loses the data of one server.
func wipe(s *scene, node environment.Node) error {
	if err := node.Kill(); err != nil {
		return err
	}
	if disk, ok := node.(interface{ WipeData() error }); ok {
		if err := disk.WipeData(); err != nil {
			return err
		}
	}
	return node.Restart(s.ctx)
}

// granting is the server that grants the locks, and everyNode are all that do.
var (
	granting  nodes = func(s *scene) []environment.Node { return s.Environment.Nodes()[:1] }
	everyNode nodes = func(s *scene) []environment.Node { return s.Environment.Nodes() }
)

// someNodes are n servers at random.
func someNodes(n int) nodes {
	return func(s *scene) (some []environment.Node) {
		all := s.Environment.Nodes()
		for _, i := range s.Rand.Perm(len(all))[:n] {
			some = append(some, all[i])
		}
		return some
	}
}

// one selects a single server.
func one[S any, N environment.Node](of func(S) N) nodes {
	return func(s *scene) []environment.Node { return []environment.Node{of(in[S](s))} }
}

// lasting has a fault last for between least and most TTLs.
func lasting(f fault, least, most float64) act {
	return func(s *scene) {
		s.Injected()
		end := f(s)
		err := s.Sleep(s.ctx, s.BetweenTTLs(least, most))
		end()
		check(err)
		s.Healed()
	}
}

// spared is lasting, for a fault that hits servers without which the others can do.
func spared(f fault, least, most float64) act {
	return func(s *scene) {
		s.Injected()
		end := f(s)
		s.Healed()
		s.pause(least, most)
		end()
		s.wait(underWay)
	}
}

// unavailable is lasting, for a fault in which nobody acquires once settled TTLs have passed: what the servers granted before may still be on its way.
func unavailable(f fault, settled, least, most float64) act {
	return func(s *scene) {
		s.Injected()
		end := f(s)
		s.pause(settled, settled)
		s.Away()
		s.pause(least, most)
		s.Back()
		end()
		s.Healed()
	}
}

// clocksForward sets the clocks of servers forward by more than a TTL. A *servers.NotInstalled says what is missing for that.
func (n nodes) clocksForward(s *scene) {
	check(servers.ClockInstalled())
	for _, node := range n(s) {
		check(node.(*servers.Redis).JumpClock(s.BetweenTTLs(1, 2)))
	}
}

// clocksBack sets the clocks of servers back just after a holder has died, each by between least TTLs and one.
func (n nodes) clocksBack(least float64) act {
	return func(s *scene) {
		check(servers.ClockInstalled())
		w := s.holder()
		s.Injected()
		check(w.Kill())
		for _, node := range n(s) {
			check(node.(*servers.Redis).JumpClock(-s.BetweenTTLs(least, 1)))
		}
		s.Healed()
		s.pause(1, 1)
	}
}

// cluster are servers that make up one system. Most of them are enough, and one of them leads.
type cluster interface {
	environment.Servers
	// CutFromQuorum cuts a member from the others, and Join ends all cuts.
	CutFromQuorum(i int)
	Join()
}

// cut leaves members alone with their clients.
func (n nodes) cut(s *scene) func() {
	for _, node := range n(s) {
		s.Note("%s is cut from the others", node.Addr())
		in[cluster](s).CutFromQuorum(slices.Index(s.Environment.Nodes(), node))
	}
	return in[cluster](s).Join
}

// leader is the member that leads.
var leader nodes = func(s *scene) []environment.Node {
	i := must(s.Environment.Leader(s.ctx))
	return s.Environment.Nodes()[i : i+1]
}

// follower is the follower to which most workers are connected.
var follower nodes = func(s *scene) []environment.Node {
	leads, most, conns := must(s.Environment.Leader(s.ctx)), 0, -1
	for i := range s.Environment.Nodes() {
		has := 0
		for _, worker := range s.Workers() {
			has += worker.Endpoint.Links[i].Conns()
		}
		if i != leads && has > conns {
			most, conns = i, has
		}
	}
	return s.Environment.Nodes()[most : most+1]
}
