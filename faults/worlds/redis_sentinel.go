package worlds

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/servers"
)

// redisSentinelTTL is longer than a fail-over takes: else a holder that the new master has forgotten has ended before there is one.
const redisSentinelTTL = 8 * time.Second

// redisSentinelSilence is when Sentinel takes a master for dead: later than a busy machine stalls a healthy one, which would be replaced while it
// lives.
const redisSentinelSilence = 2 * time.Second

// redisSentinelRecovery is how long Sentinel takes to replace a master: its silence, and then some.
const redisSentinelRecovery = 6 * time.Second

// RedisSentinel is a master with a replica and three Sentinels, which tell clients the master's own address: no proxy is between.
var RedisSentinel = faults.Arrangement{
	Name:          "redis-sentinel",
	Title:         "Redis with a replica and three Sentinels",
	Backend:       "redis",
	TTL:           redisSentinelTTL,
	Margin:        marginOf(redisSentinelTTL),
	Tokens:        true,
	RemovalNotice: redisNotice(redisSentinelTTL),
	Needs:         []string{"redis"},
	Start: func(ctx context.Context) (*faults.World, error) {
		set, err := servers.StartSentinel(ctx, servers.SentinelOptions{DownAfter: redisSentinelSilence})
		if err != nil {
			return nil, err
		}
		return &faults.World{
			Seat: func() (*faults.Seat, error) {
				return seat(nil, func([]string) string { return set.URL() })
			},
			Mend:    set.Mend,
			Close:   set.Close,
			Log:     set.Log,
			Servers: set,
		}, nil
	},
	Cells: slices.Concat(faults.Common(true), redisSentinelCells),
}

var redisSentinelCells = []faults.Cell{
	{
		Fault:    "master-killed-behind-cut-link",
		Outcome:  faults.UnsafeFenced,
		Script:   overtaken(sentinelMasterLostUnseen),
		Tries:    12, // about one in four missed: the older holder's renewal found the new master first
		Why:      "Sentinel promotes a replica that never heard of the lock, and which grants it again if that takes less than the TTL",
		Recovery: redisSentinelRecovery,
	}, {
		Fault:    "master-killed",
		Outcome:  faults.UnsafeFenced,
		Strike:   sentinelMasterKilled,
		Argued:   true,
		Why:      "Redis acknowledges before it copies. With a healthy link the time between is so short that kill -9 hardly meets it",
		Recovery: redisSentinelRecovery,
	}, {
		Fault:    "master-paused",
		Outcome:  faults.UnsafeFenced,
		Strike:   sentinelMasterPaused,
		Argued:   true,
		Why:      "a master that goes on after it was replaced answers those who are still connected to it, until Sentinel makes it a replica",
		Recovery: redisSentinelRecovery,
	},
}

func sentinelOf(p *faults.Phase) *servers.Sentinel { return p.World.Servers.(*servers.Sentinel) }

// sentinelMasterLostUnseen has the replica not hear of the lock, which is acquired anew for that, and kills the master. A master that refuses to
// be copied is as good as a link that is cut.
func sentinelMasterLostUnseen(ctx context.Context, p *faults.Phase, c *couple) error {
	set := sentinelOf(p)
	if err := c.held.Release(ctx); err != nil {
		return err
	}
	master, err := set.Master(ctx)
	if err != nil {
		return err
	}
	if _, err := master.Do(ctx, "ACL", "SETUSER", "default", "-psync", "-sync"); err != nil {
		return err
	}
	// A master that is started anew has forgotten that. One that lives, since something failed, must not refuse for ever.
	defer func() { _, _ = master.Do(context.WithoutCancel(ctx), "ACL", "SETUSER", "default", "+psync", "+sync") }()
	if _, err := master.Do(ctx, "CLIENT", "KILL", "TYPE", "replica"); err != nil {
		return err
	}
	if c.held, err = c.older.Acquire(ctx, p.Name(), p.World.TTL); err != nil {
		return err
	}
	p.Note("the master is killed")
	if err := master.Kill(); err != nil {
		return err
	}
	// The newer worker comes as soon as one sentinel names another master: the older one's next renewal finds it soon too.
	return eventually(ctx, func(ctx context.Context) error {
		for _, sentinel := range set.Sentinels {
			named, err := sentinel.Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", set.MasterName())
			if addr, ok := named.([]any); err == nil && ok && len(addr) == 2 && fmt.Sprint(addr[0], ":", addr[1]) != master.Addr() {
				return nil
			}
		}
		return errors.New("no sentinel names another master")
	})
}

func sentinelMasterKilled(ctx context.Context, p *faults.Phase) error {
	set := sentinelOf(p)
	p.Struck()
	killed, err := set.KillMaster(ctx)
	if err != nil {
		return err
	}
	if _, err := set.WaitFailover(ctx, killed); err != nil {
		return err
	}
	p.Mended()
	return nil
}

// sentinelMasterPaused stops the master until another one has been there for a while.
func sentinelMasterPaused(ctx context.Context, p *faults.Phase) error {
	set := sentinelOf(p)
	master, err := set.Master(ctx)
	if err != nil {
		return err
	}
	p.Struck()
	if err := master.Freeze(); err != nil {
		return err
	}
	if _, err := set.WaitFailover(ctx, master); err != nil {
		return err
	}
	p.Mended()
	if err := p.Sleep(ctx, p.BetweenTTLs(0, 0.5)); err != nil {
		return err
	}
	return master.Thaw()
}
