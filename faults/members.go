package faults

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/play"
)

// cluster are servers that make up one system. Most of them are enough, and one of them leads.
type cluster interface {
	environment.Servers
	// CutFromQuorum cuts a member from the others, and Join ends all cuts.
	CutFromQuorum(i int)
	Join()
}

func clusterIn(p *play.Phase) cluster { return p.Environment.Servers.(cluster) }

// on injects a fault into the member that which chooses.
func on(which func(context.Context, *play.Phase) (int, error), inject func(ctx context.Context, p *play.Phase, i int) error) step {
	return func(ctx context.Context, p *play.Phase) error {
		i, err := which(ctx, p)
		if err != nil {
			return err
		}
		return inject(ctx, p, i)
	}
}

// leader is the member that leads.
func leader(ctx context.Context, p *play.Phase) (int, error) { return clusterIn(p).Leader(ctx) }

// follower is the follower to which most workers are connected.
func follower(ctx context.Context, p *play.Phase) (int, error) {
	leader, err := clusterIn(p).Leader(ctx)
	n := len(clusterIn(p).Nodes())
	most, conns := (leader+1)%n, -1
	for i := range n {
		has := 0
		for _, worker := range p.Workers() {
			has += worker.Endpoint.Links[i].Conns()
		}
		if i != leader && has > conns {
			most, conns = i, has
		}
	}
	return most, err
}

// memberKilled kills one member, which the others can do without, and starts it again a while later.
func memberKilled(ctx context.Context, p *play.Phase, i int) error {
	m := clusterIn(p).Nodes()[i]
	p.Injected()
	p.Note("%s killed", m.Addr())
	if err := m.Kill(); err != nil {
		return err
	}
	p.Healed() // the others are all that is needed
	if err := p.Sleep(ctx, p.Between(time.Second, 3*time.Second)); err != nil {
		return err
	}
	p.Note("%s is about to be restarted", m.Addr())
	return m.Restart(ctx)
}

// memberPaused stops one member, which the others can do without, with SIGSTOP, for a time between two parts of the TTL.
func memberPaused(least, most float64) func(ctx context.Context, p *play.Phase, i int) error {
	return func(ctx context.Context, p *play.Phase, i int) error {
		m := clusterIn(p).Nodes()[i]
		d := p.BetweenTTLs(least, most)
		p.Injected()
		p.Note("%s paused for %v", m.Addr(), d)
		if err := m.Freeze(); err != nil {
			return err
		}
		p.Healed() // the others are all that is needed
		err := p.Sleep(ctx, d)
		p.Note("%s goes on", m.Addr())
		if err := errors.Join(err, m.Thaw()); err != nil {
			return err
		}
		return p.Sleep(ctx, underWay) // what it does now that it goes on
	}
}

// memberCut cuts a member from the others, so that it is alone with its clients, and heals that.
func memberCut(ctx context.Context, p *play.Phase, i int) error {
	c := clusterIn(p)
	p.Injected()
	p.Note("%s cut from the others", c.Nodes()[i].Addr())
	c.CutFromQuorum(i)
	p.Healed() // the others are all that is needed
	if err := p.Sleep(ctx, p.Between(p.Environment.TTL/4, p.Environment.TTL*3/2)); err != nil {
		return err
	}
	p.Note("healed")
	c.Join()
	return nil
}

// majorityKilled kills more than half of the members, and allKilled all, so that nobody can acquire a lock; both start them again a while later.
func majorityKilled(ctx context.Context, p *play.Phase) error {
	all := slices.Clone(clusterIn(p).Nodes())
	p.Rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return membersKilled(ctx, p, all[:len(all)/2+1])
}

func allKilled(ctx context.Context, p *play.Phase) error {
	return membersKilled(ctx, p, clusterIn(p).Nodes())
}

func membersKilled(ctx context.Context, p *play.Phase, members []environment.Node) error {
	return unavailableAfter(exactly(underWay), func(context.Context, *play.Phase) error {
		for _, m := range members {
			p.Note("%s killed", m.Addr())
			if err := m.Kill(); err != nil {
				return err
			}
		}
		return nil
	}, 0.1, 1, func(ctx context.Context, _ *play.Phase) error { return environment.Revive(ctx, members...) })(ctx, p)
}
