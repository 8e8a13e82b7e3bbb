package worlds

import (
	"context"
	"time"

	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/servers"
)

// redisForgetfulCells are how a Redis comes to forget a lock that is held.
var redisForgetfulCells = []faults.Cell{
	{
		Fault:   "server-restarted-empty",
		Outcome: faults.UnsafeFenced,
		Script:  overtaken(redisRestartedEmpty),
		Tries:   redisTries,
		Why:     "a server that comes back without its data grants again what is held; tokens begin with its clock, and so still rise",
	}, {
		Fault:   "lock-deleted",
		Outcome: faults.UnsafeFenced,
		Script: then(
			overtaken(func(ctx context.Context, p *faults.Phase, _ *couple) error {
				removed(p)
				return redisDeletes(ctx, p, p.Name())
			}),
			removedOpenly(redisDeletes)),
		Tries: redisTries,
		Why:   "an operator's DEL frees the lock at once; the holder learns it at its next renewal",
	}, {
		Fault:   "clock-set-forward",
		Outcome: faults.UnsafeFenced,
		Script:  overtaken(redisClockForward),
		Tries:   redisTries,
		Why:     "expiries are instants of the server's clock: set forward, it ends locks early",
	},
}

// removed notes that the lock of a script is about to go.
func removed(p *faults.Phase) { p.Note("%s%s", faults.Removed, p.Name()) }

func redisRestartedEmpty(ctx context.Context, p *faults.Phase, _ *couple) error {
	r := redisOf(p)
	if err := r.Kill(); err != nil {
		return err
	}
	if err := r.WipeData(); err != nil {
		return err
	}
	return r.Restart(ctx)
}

func redisDeletes(ctx context.Context, p *faults.Phase, name string) error {
	_, err := redisOf(p).Do(ctx, "DEL", redisKey(name))
	return err
}

func redisClockForward(_ context.Context, p *faults.Phase, _ *couple) error {
	removed(p)
	return jumpClock(redisOf(p).Redis, p.Between(p.World.TTL, 2*p.World.TTL))
}

// jumpClock sets the clock of a server forward by d, or back. A *servers.NotInstalled says what is missing for that.
func jumpClock(r *servers.Redis, d time.Duration) error {
	if err := servers.ClockInstalled(); err != nil {
		return err
	}
	return r.JumpClock(d)
}
