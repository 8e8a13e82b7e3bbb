package worlds

import (
	"context"

	"github.com/lockport/lockport/faults"
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

func redisRestartedEmpty(ctx context.Context, p *faults.Phase, _ *couple) error {
	r := redisOf(p)
	p.Note("the server is killed, loses its disk and starts again")
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
	p.Note("the server's clock is set forward")
	return jumpClock(redisOf(p).Redis, p.Between(p.World.TTL, 2*p.World.TTL))
}
