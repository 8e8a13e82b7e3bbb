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
	comparable
	process
	Addr() string
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

// others are all members but one.
func others[M member](members []M, but M) []M {
	var rest []M
	for _, m := range members {
		if m != but {
			rest = append(rest, m)
		}
	}
	return rest
}

// majority are more than half of the members.
func majority[M member](p *faults.Phase, members []M) []M {
	all := slices.Clone(members)
	p.Rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:len(all)/2+1]
}

// memberKilled kills one member, which the others can do without, and starts it again a while later.
func memberKilled[M member](ctx context.Context, p *faults.Phase, m M) error {
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

// membersKilled kills members without which nobody can acquire a lock, and starts them again a while later, at the same time.
func membersKilled[M member](ctx context.Context, p *faults.Phase, members []M) error {
	p.Struck()
	for _, m := range members {
		p.Note("%s killed", m.Addr())
		if err := m.Kill(); err != nil {
			return err
		}
	}
	if err := p.Sleep(ctx, underWay); err != nil {
		return err
	}
	p.Away()
	if err := p.Sleep(ctx, p.Between(p.World.TTL/10, p.World.TTL)); err != nil {
		return err
	}
	p.Back()
	if err := revive(ctx, members); err != nil {
		return err
	}
	p.Mended()
	return nil
}

// memberPaused stops one member, which the others can do without, with SIGSTOP for so long.
func memberPaused[M member](ctx context.Context, p *faults.Phase, m M, d time.Duration) error {
	p.Struck()
	p.Note("%s paused for %v", m.Addr(), d)
	if err := m.Freeze(); err != nil {
		return err
	}
	p.Mended() // the others are all that is needed
	err := p.Sleep(ctx, d)
	p.Note("%s goes on", m.Addr())
	return errors.Join(err, m.Thaw())
}

// quorum is servers whose ways to each other can be cut.
type quorum interface {
	CutFromQuorum(i int)
	Heal()
}

// memberCut cuts the i-th member from the others, so that it is alone with its clients, and heals that.
func memberCut(ctx context.Context, p *faults.Phase, q quorum, i int) error {
	p.Struck()
	p.Note("member %d cut from the others", i)
	q.CutFromQuorum(i)
	p.Mended() // the others are all that is needed
	if err := p.Sleep(ctx, p.Between(p.World.TTL/4, p.World.TTL*3/2)); err != nil {
		return err
	}
	p.Note("healed")
	q.Heal()
	return nil
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
