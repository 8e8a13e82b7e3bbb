package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/play"
)

// redisSentinelRecovery is how long Sentinel takes to replace a master: its silence, and then some.
const redisSentinelRecovery = 6 * time.Second

var redisSentinelCells = []play.Cell{
	{
		Fault:    "master-killed-behind-cut-link",
		Outcome:  play.UnsafeFenced,
		Script:   overtaken(sentinelMasterLostUnseen),
		Tries:    12, // about one in four missed: the older holder's renewal found the new master first
		Why:      "Sentinel promotes a replica that never heard of the lock, and which grants it again if that takes less than the TTL",
		Recovery: redisSentinelRecovery,
	}, {
		Fault:    "master-killed",
		Outcome:  play.UnsafeFenced,
		Inject:   sentinelMasterKilled,
		Argued:   true,
		Why:      "Redis acknowledges before it copies. With a healthy link the time between is so short that kill -9 hardly meets it",
		Recovery: redisSentinelRecovery,
	}, {
		Fault:    "master-paused",
		Outcome:  play.UnsafeFenced,
		Inject:   sentinelMasterPaused,
		Argued:   true,
		Why:      "a master that goes on after it was replaced answers those who are still connected to it, until Sentinel makes it a replica",
		Recovery: redisSentinelRecovery,
	},
}

// sentinelMasterLostUnseen has the replica not hear of the lock, which is acquired anew for that, and kills the master. A master that refuses to
// be copied is as good as a link that is cut.
func sentinelMasterLostUnseen(ctx context.Context, p *play.Phase, c *couple) error {
	set := p.Environment.Servers.(*environment.RedisSentinel)
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
	if c.held, err = c.older.Acquire(ctx, p.Name(), p.Environment.TTL); err != nil {
		return err
	}
	p.Note("the master is killed")
	if err := master.Kill(); err != nil {
		return err
	}
	// The newer worker comes as soon as one sentinel names another master: the older one's next renewal finds it soon too.
	return environment.Eventually(ctx, func(ctx context.Context) error {
		for _, sentinel := range set.Sentinels {
			named, err := sentinel.Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", set.MasterName())
			if addr, ok := named.([]any); err == nil && ok && len(addr) == 2 && fmt.Sprint(addr[0], ":", addr[1]) != master.Addr() {
				return nil
			}
		}
		return errors.New("no sentinel names another master")
	})
}

func sentinelMasterKilled(ctx context.Context, p *play.Phase) error {
	set := p.Environment.Servers.(*environment.RedisSentinel)
	p.Injected()
	killed, err := set.KillMaster(ctx)
	if err != nil {
		return err
	}
	if _, err := set.WaitFailover(ctx, killed); err != nil {
		return err
	}
	p.Healed()
	return nil
}

// sentinelMasterPaused stops the master until another one has been there for a while.
func sentinelMasterPaused(ctx context.Context, p *play.Phase) error {
	set := p.Environment.Servers.(*environment.RedisSentinel)
	master, err := set.Master(ctx)
	if err != nil {
		return err
	}
	p.Injected()
	if err := master.Freeze(); err != nil {
		return err
	}
	if _, err := set.WaitFailover(ctx, master); err != nil {
		return err
	}
	p.Healed()
	if err := p.Sleep(ctx, p.BetweenTTLs(0, 0.5)); err != nil {
		return err
	}
	return master.Thaw()
}
