package worlds

import (
	"context"
	"os"
	"time"

	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/servers"
)

// redisServerCells are what happens to the process and the disk of a Redis that keeps its data.
var redisServerCells = []faults.Cell{
	{
		Fault:    "server-killed",
		Strike:   contested(lasting(redisKilled, 0.01, 0.2, redisRestarted)),
		Why:      "with appendfsync always the server comes back with every lock that it acknowledged, and expiries are instants",
		Recovery: 2 * time.Second,
	}, {
		Fault:    "server-killed-for-long",
		Outcome:  faults.Unavailable,
		Strike:   contested(unavailable(redisKilled, 0.5, 1.5, redisRestarted)),
		Why:      "holds end before their keys expire",
		Recovery: 2 * time.Second,
	}, {
		Fault:    "server-paused",
		Strike:   contested(lasting(redisFrozen, 0.1, 0.9, redisThawed)),
		Why:      "what was sent to a paused server is carried out when it goes on, by the clock of that moment",
		Recovery: 2 * time.Second,
	}, {
		Fault:    "server-paused-for-long",
		Outcome:  faults.Unavailable,
		Strike:   contested(unavailable(redisFrozen, 0.9, 1.6, redisThawed)),
		Why:      "holds end before the keys expire, and renewals that arrive later find them gone",
		Recovery: 2 * time.Second,
	}, {
		Fault:   "disk-full",
		Outcome: faults.Unavailable,
		Strike:  contested(unavailable(redisCannotSave, 1, 1.5, redisSavesAgain)),
		Why: "a Redis that is told to save snapshots and cannot (MISCONF) refuses every write, renewals and releases too, so that holds end; " +
			"one that cannot write its append-only file under appendfsync always ends itself, as if it were killed",
	}, {
		Fault:    "clock-set-back",
		Strike:   clocksBack(func(p *faults.Phase) []*servers.Redis { return []*servers.Redis{redisOf(p).Redis} }, 0.1),
		Why:      "expiries are instants of the server's clock: the lock of a dead holder lasts longer by as much as the clock was set back",
		Recovery: 2*redisTTL + time.Second,
	},
}

func redisKilled(_ context.Context, p *faults.Phase) error { return redisOf(p).Kill() }

func redisRestarted(ctx context.Context, p *faults.Phase) error { return redisOf(p).Restart(ctx) }

func redisFrozen(_ context.Context, p *faults.Phase) error { return redisOf(p).Freeze() }

func redisThawed(_ context.Context, p *faults.Phase) error { return redisOf(p).Thaw() }

// redisCannotSave has a folder be where the snapshot is to go, so that saving it fails at the last step, as it does on a full disk.
func redisCannotSave(ctx context.Context, p *faults.Phase) error {
	r := redisOf(p)
	if err := os.RemoveAll(r.snapshot()); err != nil {
		return err
	}
	if err := os.Mkdir(r.snapshot(), 0o700); err != nil {
		return err
	}
	if err := r.saves(ctx, "err"); err != nil {
		return err
	}
	return r.set(ctx, "save", "3600 1") // a server that need not save anything does not mind
}

func redisSavesAgain(ctx context.Context, p *faults.Phase) error { return redisOf(p).savesAgain(ctx) }
