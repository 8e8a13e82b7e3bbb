package worlds

import (
	"context"
	"time"

	"github.com/lockport/lockport/faults"
)

// process is one server of internal/lab/servers that can be broken.
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
func killed(which func(*faults.Phase) process) step {
	return unavailableAfter(exactly(underWay), by(which, process.Kill), 0.1, 0.5, func(ctx context.Context, p *faults.Phase) error {
		return which(p).Restart(ctx)
	})
}

// restarted stops a server in order, and starts it again at once.
func restarted(which func(*faults.Phase) process) step {
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
func pausedBriefly(which func(*faults.Phase) process) step {
	return lasting(by(which, process.Freeze), 0.1, 0.9, by(which, process.Thaw))
}

// pausedLong stops a server without which nobody acquires for longer than a TTL, so that all holders have lost their locks.
func pausedLong(which func(*faults.Phase) process) step {
	ttl := func(p *faults.Phase) time.Duration { return p.World.TTL }
	return unavailableAfter(ttl, by(which, process.Freeze), 0.1, 1, by(which, process.Thaw))
}

// by does something to a server.
func by(which func(*faults.Phase) process, do func(process) error) step {
	return func(_ context.Context, p *faults.Phase) error { return do(which(p)) }
}

// restart restarts a server, and with it ends all claims: see endedBehindSilence.
func restart(which func(*faults.Phase) process) func(ctx context.Context, p *faults.Phase, name string) error {
	return func(ctx context.Context, p *faults.Phase, _ string) error { return which(p).Restart(ctx) }
}
