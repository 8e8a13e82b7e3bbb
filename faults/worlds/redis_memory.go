package worlds

import (
	"context"
	"errors"

	"github.com/lockport/lockport/faults"
)

// redisMemoryCells are what a limit of its memory does to a Redis.
var redisMemoryCells = []faults.Cell{
	{
		Fault:  "out-of-memory",
		Strike: redisFull,
		Why: "a full server (noeviction) refuses new claims, while renewals and releases need no memory: locks that are held stay held, and " +
			"who waits in the queue already gets them in turn",
	}, {
		Fault:   "lock-evicted",
		Outcome: faults.UnsafeFenced,
		Script:  overtaken(redisEvicts),
		Tries:   redisTries,
		Why:     "with a memory limit and an allkeys policy Redis throws locks away; the holder learns it at its next renewal",
	},
}

// redisFull has no memory be left while workers work, and one more of them have a lock, which it must keep.
func redisFull(ctx context.Context, p *faults.Phase) error {
	keeper, err := p.Worker(ctx)
	if err != nil {
		return err
	}
	kept, err := keeper.Acquire(ctx, p.Name(), p.World.TTL)
	if err != nil {
		return err
	}
	if err := lasting(
		func(ctx context.Context, p *faults.Phase) error { return redisOf(p).set(ctx, "maxmemory", 1) }, 1, 1.5,
		func(ctx context.Context, p *faults.Phase) error { return redisOf(p).set(ctx, "maxmemory", 0) })(ctx, p); err != nil {
		return err
	}
	if valid, err := kept.Valid(ctx); err != nil || !valid {
		return errors.Join(errors.New("a lock that was held when the memory ran out did not stay held"), err)
	}
	return keeper.Kill()
}

// redisEvicts has the server throw away all that it has.
func redisEvicts(ctx context.Context, p *faults.Phase, _ *couple) error {
	r := redisOf(p)
	removed(p)
	if err := r.set(ctx, "maxmemory-policy", "allkeys-lru", "maxmemory", 1); err != nil {
		return err
	}
	if err := eventually(ctx, func(ctx context.Context) error {
		n, err := r.Do(ctx, "EXISTS", redisKey(p.Name()))
		if err == nil && n != int64(0) {
			err = errors.New("the lock has not been evicted")
		}
		return err
	}); err != nil {
		return err
	}
	return r.set(ctx, "maxmemory", 0)
}
