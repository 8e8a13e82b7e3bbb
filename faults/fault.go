// Package faults shows what each backend does when machines and networks fail. Worker processes lock on real servers while faults are injected one
// after another, and their history is judged. The [Cells] of an environment state what each fault does to a lock. Tests check both directions: a
// fault stated to be safe must never be seen to fail, and one stated to be unsafe must be.
package faults

import (
	"context"
	"slices"
	"time"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/servers"
)

// fault begins when it is called, and ends when end is.
type fault func(s *play.Phase) (end func())

// in returns the servers of a phase.
func in[S any](s *play.Phase) S { return s.Environment.Servers.(S) }

// at is an act that calls a method of the servers.
func at[S any](method func(S, context.Context) error) play.Act {
	return func(s *play.Phase) { play.Check(method(in[S](s), s.Ctx)) }
}

// named is an act that calls a method of the servers with the name of the phase's lock.
func named[S any](method func(S, context.Context, string) error) play.Act {
	return func(s *play.Phase) { play.Check(method(in[S](s), s.Ctx, s.Name)) }
}

// Remove removes the lock at its server, as an operator does.
func Remove(s *play.Phase) {
	s.Note("the lock is removed")
	named(environment.Locks.Remove)(s)
}

// until is a fault made of two acts.
func until(begin, end play.Act) fault {
	return func(s *play.Phase) func() {
		begin(s)
		return func() { end(s) }
	}
}

// failOver is [play.Phase.FailOver].
func failOver(least, most float64) play.Act {
	return func(s *play.Phase) { s.FailOver(least, most) }
}

// nodes selects the servers that a fault hits.
type nodes func(s *play.Phase) []*servers.Server

// killed kills servers, and frozen stops them with SIGSTOP. Ending the fault starts or resumes all of them at once.
func (n nodes) killed(s *play.Phase) func() { return n.hit(s, (*servers.Server).Kill) }
func (n nodes) frozen(s *play.Phase) func() { return n.hit(s, (*servers.Server).Freeze) }

func (n nodes) hit(s *play.Phase, harm func(*servers.Server) error) func() {
	those := n(s)
	for _, node := range those {
		s.Note("%s is hit", node.Addr())
	}
	play.Check(environment.AtOnce(those, harm))
	return func() { play.Check(environment.Revive(s.Ctx, those...)) }
}

func (n nodes) restart(s *play.Phase) { play.Check(n(s)[0].Restart(s.Ctx)) }

// wiped kills servers and starts them again at once, without their data.
func (n nodes) wiped(s *play.Phase) {
	s.Note("servers are killed, lose their data and start again")
	play.Check(environment.AtOnce(n(s), func(node *servers.Server) error { return node.RestartEmpty(s.Ctx) }))
}

// granting is the server that grants the locks, and everyNode are all such servers.
var (
	granting  nodes = func(s *play.Phase) []*servers.Server { return s.Environment.Nodes()[:1] }
	everyNode nodes = func(s *play.Phase) []*servers.Server { return s.Environment.Nodes() }
)

// someNodes selects n servers at random.
func someNodes(n int) nodes {
	return func(s *play.Phase) (some []*servers.Server) {
		all := s.Environment.Nodes()
		for _, i := range s.Rand.Perm(len(all))[:n] {
			some = append(some, all[i])
		}
		return some
	}
}

// during keeps a fault up while an act goes on.
func during(f fault, act play.Act) play.Act {
	return func(s *play.Phase) {
		s.Injected()
		end := f(s)
		func() {
			defer end()
			act(s)
		}()
		s.Healed()
	}
}

// lasting keeps a fault up for between least and most TTLs.
func lasting(f fault, least, most float64) play.Act {
	return during(f, func(s *play.Phase) { s.Pause(least, most) })
}

// unavailable is lasting for a fault during which nobody acquires. Before settled TTLs have passed, earlier grants may still arrive.
func unavailable(f fault, settled, least, most float64) play.Act {
	return during(f, func(s *play.Phase) {
		settle(s, settled)
		s.Away()
		s.Pause(least, most)
		s.Back()
	})
}

// settle pauses for ttls TTLs, and again if the machine stalled meanwhile: grants may then still be on their way.
func settle(s *play.Phase, ttls float64) {
	const steps, stall = 10, 100 * time.Millisecond
	pause := s.BetweenTTLs(ttls/steps, ttls/steps)
	for steady := 0; steady < steps; steady++ {
		start := time.Now()
		if s.Wait(pause); time.Since(start) > pause+stall {
			steady = -1
		}
	}
}

// clocksForward sets the clocks of servers forward by more than a TTL. A *servers.NotInstalled names the missing program.
func (n nodes) clocksForward(s *play.Phase) {
	play.Check(servers.ClockInstalled())
	s.Note("clocks are set forward by more than the TTL")
	for _, node := range n(s) {
		play.Check(node.JumpClock(s.BetweenTTLs(1, 2)))
	}
}

// clocksBack sets the clocks of servers back just after a holder has died, each by between a tenth of a TTL and one.
func (n nodes) clocksBack(s *play.Phase) {
	play.Check(servers.ClockInstalled())
	w := s.Holder()
	s.Injected()
	w.Kill()
	for _, node := range n(s) {
		play.Check(node.JumpClock(-s.BetweenTTLs(0.1, 1)))
	}
	s.Healed()
	s.Pause(1, 1)
}

// cut isolates members from the others, but not from clients.
func (n nodes) cut(s *play.Phase) func() {
	for _, node := range n(s) {
		s.Note("%s is cut off from the others", node.Addr())
		s.Environment.CutFromQuorum(slices.Index(s.Environment.Nodes(), node))
	}
	return s.Environment.Join
}

// leader is the member that leads.
var leader nodes = func(s *play.Phase) []*servers.Server {
	i := play.Must(s.Environment.Leader(s.Ctx))
	return s.Environment.Nodes()[i : i+1]
}

// follower is the follower to which most workers are connected.
var follower nodes = func(s *play.Phase) []*servers.Server {
	leads, most, conns := play.Must(s.Environment.Leader(s.Ctx)), 0, -1
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
