package faults

import (
	"context"
	"time"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/play"
)

// granting is the server that grants the locks.
func granting(p *play.Phase) environment.Node { return p.Environment.Nodes()[0] }

// backRecovery is within which time somebody acquires again when the server is back.
const backRecovery = 2 * time.Second

// underWay is how long what a server has said before it went may take to arrive, and what follows from it to happen.
const underWay = 500 * time.Millisecond

// killed kills a server without which nobody acquires, and starts it again after half a second or more, with what it has on its disk.
func killed(which func(*play.Phase) environment.Node) step {
	return unavailableAfter(exactly(underWay), by(which, environment.Node.Kill), 0.1, 0.5, restartedAgain(which))
}

// restartedAgain starts a server again.
func restartedAgain(which func(*play.Phase) environment.Node) step {
	return func(ctx context.Context, p *play.Phase) error { return which(p).Restart(ctx) }
}

// restarted stops a server in order, and starts it again at once.
func restarted(which func(*play.Phase) environment.Node) step {
	return inOrder(injected, restartedAgain(which), healed)
}

// pausedBriefly stops a server with SIGSTOP, with all its processes, for less than a TTL. Workers may hand over inside of their process
// what they hold, so that it is not said that nobody acquires.
func pausedBriefly(which func(*play.Phase) environment.Node) step {
	return lasting(by(which, environment.Node.Freeze), 0.1, 0.9, by(which, environment.Node.Thaw))
}

// pausedLong stops a server without which nobody acquires for longer than a TTL, so that all holders have lost their locks.
func pausedLong(which func(*play.Phase) environment.Node) step {
	ttl := func(p *play.Phase) time.Duration { return p.Environment.TTL }
	return unavailableAfter(ttl, by(which, environment.Node.Freeze), 0.1, 1, by(which, environment.Node.Thaw))
}

// by does something to a server.
func by(which func(*play.Phase) environment.Node, do func(environment.Node) error) step {
	return func(_ context.Context, p *play.Phase) error { return do(which(p)) }
}

// restart restarts a server, and with it ends all claims: see endedBehindSilence.
func restart(which func(*play.Phase) environment.Node) func(ctx context.Context, p *play.Phase, name string) error {
	return func(ctx context.Context, p *play.Phase, _ string) error { return which(p).Restart(ctx) }
}
