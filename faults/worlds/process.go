package worlds

import (
	"context"
	"time"

	"github.com/lockport/lockport/faults"
)

// process is one server of internal/servers that can be broken.
type process interface {
	Kill() error
	Stop() error
	Restart(ctx context.Context) error
	Freeze() error
	Thaw() error
}

// alone is what World.Servers is where one server grants the locks.
type alone interface {
	grants() process
}

// granting is the server that grants the locks.
func granting(p *faults.Phase) process { return p.World.Servers.(alone).grants() }

// backRecovery is within which time somebody acquires again when the server is back.
const backRecovery = 2 * time.Second

// underWay is how long what a server has said before it went may take to arrive, and what follows from it to happen.
const underWay = 500 * time.Millisecond

// killed kills a server without which nobody acquires, and starts it again after half a second or more, with what it has on its disk.
func killed(which func(*faults.Phase) process) func(ctx context.Context, p *faults.Phase) error {
	return func(ctx context.Context, p *faults.Phase) error {
		s := which(p)
		p.Struck()
		if err := s.Kill(); err != nil {
			return err
		}
		if err := p.Sleep(ctx, underWay); err != nil {
			return err
		}
		p.Away()
		if err := p.Sleep(ctx, p.Between(p.World.TTL/10, p.World.TTL/2)); err != nil {
			return err
		}
		p.Back()
		if err := s.Restart(ctx); err != nil {
			return err
		}
		p.Mended()
		return nil
	}
}

// restarted stops a server in order, and starts it again at once.
func restarted(which func(*faults.Phase) process) func(ctx context.Context, p *faults.Phase) error {
	return func(ctx context.Context, p *faults.Phase) error {
		p.Struck()
		if err := which(p).Restart(ctx); err != nil {
			return err
		}
		p.Mended()
		return nil
	}
}

// pausedBriefly stops a server with SIGSTOP, with all its processes, for less than a TTL. Workers may hand over inside of their process
// what they hold, so that it is not said that nobody acquires.
func pausedBriefly(which func(*faults.Phase) process) func(ctx context.Context, p *faults.Phase) error {
	return func(ctx context.Context, p *faults.Phase) error {
		return paused(ctx, p, which(p), p.Between(p.World.TTL/10, p.World.TTL*9/10), 0)
	}
}

// pausedLong stops a server without which nobody acquires for longer than a TTL, so that all holders have lost their locks.
func pausedLong(which func(*faults.Phase) process) func(ctx context.Context, p *faults.Phase) error {
	return func(ctx context.Context, p *faults.Phase) error {
		return paused(ctx, p, which(p), p.World.TTL, p.Between(p.World.TTL/10, p.World.TTL))
	}
}

// paused stops a server for two times, in the second of which nobody can acquire a lock.
func paused(ctx context.Context, p *faults.Phase, s process, first, then time.Duration) error {
	p.Struck()
	if err := s.Freeze(); err != nil {
		return err
	}
	if err := p.Sleep(ctx, first); err != nil {
		return err
	}
	if then > 0 {
		p.Away()
		if err := p.Sleep(ctx, then); err != nil {
			return err
		}
		p.Back()
	}
	if err := s.Thaw(); err != nil {
		return err
	}
	p.Mended()
	return nil
}

// restart restarts a server, and with it ends all claims: see endedBehindSilence.
func restart(which func(*faults.Phase) process) func(ctx context.Context, p *faults.Phase, name string) error {
	return func(ctx context.Context, p *faults.Phase, _ string) error { return which(p).Restart(ctx) }
}
