package worlds

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockport/lockport/faults"
)

// member is one server of several that make up one system.
type member interface {
	process
	Addr() string
}

// cluster is what World.Servers is where members make up one system, most of whom are enough, and one of whom leads.
type cluster interface {
	// members are all of them.
	members() []member
	// lead is the index of the one that leads, and follow that of one that follows.
	lead(ctx context.Context) (int, error)
	follow(ctx context.Context, p *faults.Phase) (int, error)
	// CutFromQuorum cuts a member from the others, and Heal ends all cuts.
	CutFromQuorum(i int)
	Heal()
}

func clusterOf(p *faults.Phase) cluster { return p.World.Servers.(cluster) }

// membersOf are servers as members.
func membersOf[M member](nodes []M) []member {
	all := make([]member, len(nodes))
	for i, node := range nodes {
		all[i] = node
	}
	return all
}

// onLeader is a strike on the member that leads, and onFollower on one that follows.
func onLeader(strike func(ctx context.Context, p *faults.Phase, i int) error) step {
	return func(ctx context.Context, p *faults.Phase) error {
		i, err := clusterOf(p).lead(ctx)
		if err != nil {
			return err
		}
		return strike(ctx, p, i)
	}
}

func onFollower(strike func(ctx context.Context, p *faults.Phase, i int) error) step {
	return func(ctx context.Context, p *faults.Phase) error {
		i, err := clusterOf(p).follow(ctx, p)
		if err != nil {
			return err
		}
		return strike(ctx, p, i)
	}
}

// revive makes servers run again, whatever was done to them, at the same time: one alone may wait for others.
func revive[P process](ctx context.Context, all []P) error {
	return atOnce(all, func(s P) error {
		if s.Thaw() == nil { // it runs
			return nil
		}
		return s.Restart(ctx)
	})
}

// memberKilled kills one member, which the others can do without, and starts it again a while later.
func memberKilled(ctx context.Context, p *faults.Phase, i int) error {
	m := clusterOf(p).members()[i]
	p.Struck()
	p.Note("%s killed", m.Addr())
	if err := m.Kill(); err != nil {
		return err
	}
	p.Mended() // the others are all that is needed
	if err := p.Sleep(ctx, p.Between(time.Second, 3*time.Second)); err != nil {
		return err
	}
	p.Note("%s is about to be restarted", m.Addr())
	return m.Restart(ctx)
}

// memberPaused stops one member, which the others can do without, with SIGSTOP, for a time between two parts of the TTL.
func memberPaused(least, most float64) func(ctx context.Context, p *faults.Phase, i int) error {
	return func(ctx context.Context, p *faults.Phase, i int) error {
		m := clusterOf(p).members()[i]
		d := p.BetweenTTLs(least, most)
		p.Struck()
		p.Note("%s paused for %v", m.Addr(), d)
		if err := m.Freeze(); err != nil {
			return err
		}
		p.Mended() // the others are all that is needed
		err := p.Sleep(ctx, d)
		p.Note("%s goes on", m.Addr())
		if err := errors.Join(err, m.Thaw()); err != nil {
			return err
		}
		return p.Sleep(ctx, underWay) // what it does now that it goes on
	}
}

// memberCut cuts a member from the others, so that it is alone with its clients, and heals that.
func memberCut(ctx context.Context, p *faults.Phase, i int) error {
	c := clusterOf(p)
	p.Struck()
	p.Note("%s cut from the others", c.members()[i].Addr())
	c.CutFromQuorum(i)
	p.Mended() // the others are all that is needed
	if err := p.Sleep(ctx, p.Between(p.World.TTL/4, p.World.TTL*3/2)); err != nil {
		return err
	}
	p.Note("healed")
	c.Heal()
	return nil
}

// majorityKilled kills more than half of the members, and allKilled all, so that nobody can acquire a lock; both start them again a while later.
func majorityKilled(ctx context.Context, p *faults.Phase) error {
	all := slices.Clone(clusterOf(p).members())
	p.Rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return membersKilled(ctx, p, all[:len(all)/2+1])
}

func allKilled(ctx context.Context, p *faults.Phase) error {
	return membersKilled(ctx, p, clusterOf(p).members())
}

func membersKilled(ctx context.Context, p *faults.Phase, members []member) error {
	return unavailableAfter(exactly(underWay), func(context.Context, *faults.Phase) error {
		for _, m := range members {
			p.Note("%s killed", m.Addr())
			if err := m.Kill(); err != nil {
				return err
			}
		}
		return nil
	}, 0.1, 1, func(ctx context.Context, _ *faults.Phase) error { return revive(ctx, members) })(ctx, p)
}

// atOnce calls f for all of them, at the same time, and returns what went wrong when all have returned.
func atOnce[M any](all []M, f func(M) error) error {
	errs := make([]error, len(all))
	var calls sync.WaitGroup
	for i, one := range all {
		calls.Go(func() { errs[i] = f(one) })
	}
	calls.Wait()
	return errors.Join(errs...)
}

// tryTime bounds one attempt, since a server that does not serve may not say so.
const tryTime = 2 * time.Second

// eventually calls try, for so long at most each time, until it returns nil, or ctx ends.
func eventually(ctx context.Context, try func(ctx context.Context) error) error {
	for {
		attempt, cancel := context.WithTimeout(ctx, tryTime)
		err := try(attempt)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; last seen: %w", context.Cause(ctx), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
