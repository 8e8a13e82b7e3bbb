package faults

import (
	"context"
	"errors"
	"time"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/servers"
)

const redisTTL = 2 * time.Second

func redisIn(p *play.Phase) *environment.Redis { return p.Environment.Servers.(*environment.Redis) }

// redisServerCells are what happens to the process and the disk of a Redis that keeps its data.
var redisServerCells = []play.Cell{
	{
		Fault:    "server-killed",
		Inject:   contested(lasting(by(granting, environment.Node.Kill), 0.01, 0.2, restartedAgain(granting))),
		Why:      "with appendfsync always the server comes back with every lock that it acknowledged, and expiries are instants",
		Recovery: 2 * time.Second,
	}, {
		Fault:    "server-killed-for-long",
		Outcome:  play.Unavailable,
		Inject:   contested(unavailable(by(granting, environment.Node.Kill), 0.5, 1.5, restartedAgain(granting))),
		Why:      "holds end before their keys expire",
		Recovery: 2 * time.Second,
	}, {
		Fault:    "server-paused",
		Inject:   contested(pausedBriefly(granting)),
		Why:      "what was sent to a paused server is carried out when it goes on, by the clock of that moment",
		Recovery: 2 * time.Second,
	}, {
		Fault:    "server-paused-for-long",
		Outcome:  play.Unavailable,
		Inject:   contested(unavailable(by(granting, environment.Node.Freeze), 0.9, 1.6, by(granting, environment.Node.Thaw))),
		Why:      "holds end before the keys expire, and renewals that arrive later find them gone",
		Recovery: 2 * time.Second,
	}, {
		Fault:   "disk-full",
		Outcome: play.Unavailable,
		Inject:  contested(unavailable(redisCannotSave, 1, 1.5, redisSavesAgain)),
		Why: "a Redis that is told to save snapshots and cannot (MISCONF) refuses every write, renewals and releases too, so that holds end; " +
			"one that cannot write its append-only file under appendfsync always ends itself, as if it were killed",
	}, {
		Fault:    "clock-set-back",
		Inject:   clocksBack(func(p *play.Phase) []*servers.Redis { return []*servers.Redis{redisIn(p).Redis} }, 0.1),
		Why:      "expiries are instants of the server's clock: the lock of a dead holder lasts longer by as much as the clock was set back",
		Recovery: 2*redisTTL + time.Second,
	},
}

func redisCannotSave(ctx context.Context, p *play.Phase) error { return redisIn(p).FailToSave(ctx) }

func redisSavesAgain(ctx context.Context, p *play.Phase) error { return redisIn(p).SaveAgain(ctx) }

// redisMemoryCells are what a limit of its memory does to a Redis.
var redisMemoryCells = []play.Cell{
	{
		Fault:  "out-of-memory",
		Inject: redisFull,
		Why: "a full server (noeviction) refuses new claims, while renewals and releases need no memory: locks that are held stay held, and " +
			"who waits in the queue already gets them in turn",
	}, {
		Fault:   "lock-evicted",
		Outcome: play.UnsafeFenced,
		Script:  overtaken(redisEvicts),
		Tries:   redisTries,
		Why:     "with a memory limit and an allkeys policy Redis throws locks away; the holder learns it at its next renewal",
	},
}

// redisFull has no memory be left while workers work, and one more of them have a lock, which it must keep.
func redisFull(ctx context.Context, p *play.Phase) error {
	keeper, err := p.Worker(ctx)
	if err != nil {
		return err
	}
	kept, err := keeper.Acquire(ctx, p.Name(), p.Environment.TTL)
	if err != nil {
		return err
	}
	if err := lasting(
		func(ctx context.Context, p *play.Phase) error { return redisIn(p).Set(ctx, "maxmemory", 1) }, 1, 1.5,
		func(ctx context.Context, p *play.Phase) error { return redisIn(p).Set(ctx, "maxmemory", 0) })(ctx, p); err != nil {
		return err
	}
	if valid, err := kept.Valid(ctx); err != nil || !valid {
		return errors.Join(errors.New("a lock that was held when the memory ran out did not stay held"), err)
	}
	return keeper.Kill()
}

// redisEvicts has the server throw away all that it has.
func redisEvicts(ctx context.Context, p *play.Phase, _ *couple) error {
	r := redisIn(p)
	removed(p)
	if err := r.Set(ctx, "maxmemory-policy", "allkeys-lru", "maxmemory", 1); err != nil {
		return err
	}
	if err := environment.Eventually(ctx, func(ctx context.Context) error {
		n, err := r.Do(ctx, "EXISTS", environment.RedisKey(p.Name()))
		if err == nil && n != int64(0) {
			err = errors.New("the lock has not been evicted")
		}
		return err
	}); err != nil {
		return err
	}
	return r.Set(ctx, "maxmemory", 0)
}

// redisForgetfulCells are how a Redis comes to forget a lock that is held.
var redisForgetfulCells = []play.Cell{
	{
		Fault:   "server-restarted-empty",
		Outcome: play.UnsafeFenced,
		Script:  overtaken(redisRestartedEmpty),
		Tries:   redisTries,
		Why:     "a server that comes back without its data grants again what is held; tokens begin with its clock, and so still rise",
	}, {
		Fault:   "lock-deleted",
		Outcome: play.UnsafeFenced,
		Script: inOrder(
			overtaken(func(ctx context.Context, p *play.Phase, _ *couple) error {
				return p.Remove(ctx, p.Name())
			}),
			removedOpenly(remove)),
		Tries: redisTries,
		Why:   "an operator's DEL frees the lock at once; the holder learns it at its next renewal",
	}, {
		Fault:   "clock-set-forward",
		Outcome: play.UnsafeFenced,
		Script:  overtaken(redisClockForward),
		Tries:   redisTries,
		Why:     "expiries are instants of the server's clock: set forward, it ends locks early",
	},
}

func redisRestartedEmpty(ctx context.Context, p *play.Phase, _ *couple) error {
	p.Note("the server is killed, loses its disk and starts again")
	return wipe(ctx, redisIn(p).Redis)
}

func redisClockForward(_ context.Context, p *play.Phase, _ *couple) error {
	removed(p)
	p.Note("the server's clock is set forward")
	return jumpClock(redisIn(p).Redis, p.Between(p.Environment.TTL, 2*p.Environment.TTL))
}

// jumpClock sets the clock of a server forward by d, or back. A *servers.NotInstalled says what is missing for that.
func jumpClock(r *servers.Redis, d time.Duration) error {
	if err := servers.ClockInstalled(); err != nil {
		return err
	}
	return r.JumpClock(d)
}

// clocksBack sets the clocks of servers back just after a holder has died, each by between least TTLs and one.
func clocksBack(which func(*play.Phase) []*servers.Redis, least float64) step {
	return func(ctx context.Context, p *play.Phase) error {
		w, err := p.Holder(ctx)
		if err != nil {
			return err
		}
		p.Injected()
		if err := w.Kill(); err != nil {
			return err
		}
		for _, r := range which(p) {
			if err := jumpClock(r, -p.BetweenTTLs(least, 1)); err != nil {
				return err
			}
		}
		p.Healed()
		return p.Sleep(ctx, p.Environment.TTL)
	}
}
