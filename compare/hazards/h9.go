package hazards

import (
	"context"
	"time"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/report"
	"github.com/lockport/lockport/internal/lab/servers"
)

// h9 is a server whose clock jumps.
var h9 = []scenario{
	{
		hazard: "H9", subject: "article", world: "redis", lock: "set-nx-px", alone: true,
		setup:  "one Redis; its clock is set forward, by more than the TTL, while A holds the lock",
		script: overtaken(clockForward),
	},
	{
		hazard: "H9", subject: "file",
		notRun: "Not tried, and it should not matter: a lock of the system ends with its process, and no clock has a part in that.",
	},
	{
		hazard: "H9", subject: "redis", world: "redis", alone: true,
		setup:  "one Redis; its clock is set forward, by more than the TTL, while A holds the lock",
		script: overtaken(clockForward),
	},
	{
		hazard: "H9", subject: "redis", variant: "set back", world: "redis", alone: true, full: true,
		setup:  "one Redis; A, which holds the lock, is killed, and the clock of the Redis is set back by an hour",
		script: clockSetBack,
	},
	{
		hazard: "H9", subject: "redlock", world: "redlock", alone: true,
		setup: "five Redis; A reaches three of them and takes the lock there, the clock of one of the three is set forward by more than the TTL, and " +
			"B takes the lock with the votes of that one and the two others",
		script: bareMajority("clock set forward by 60 s", clockSetForward),
	},
	{
		hazard: "H9", subject: "redlock", variant: "three of five", world: "redlock", alone: true, full: true,
		setup:  "five Redis; the clocks of three of them are set forward by more than the TTL while A holds the lock on all of them",
		script: fullMajority("clock set forward by 60 s", clockSetForward),
	},
	{
		hazard: "H9", subject: "etcd",
		notRun: "Not tried, and it should not matter: the leader of the etcds counts leases by a clock that nobody sets, not by the time of day.",
	},
	{
		hazard: "H9", subject: "zookeeper",
		notRun: "Not tried, and it should not matter: ZooKeeper counts sessions by a clock that nobody sets, not by the time of day.",
	},
	{
		hazard: "H9", subject: "postgres",
		notRun: "Not tried, and it should not matter: a lock ends with its session, and PostgreSQL ends a silent one by a timer of the system, which counts from when it was set.",
	},
	{
		hazard: "H9", subject: "mysql",
		notRun: "Not tried, and it should not matter: a lock ends with its session, and the server ends a silent one when a wait on its socket has lasted too long. Tokens are " +
			"the clock or one more than the last, so that they rise all the same.",
	},
}

// clocked is a server whose clock can be set.
type clocked interface{ JumpClock(d time.Duration) error }

// clockSetForward ends all that a node has.
func clockSetForward(_ context.Context, n environment.Node) error {
	if err := servers.ClockInstalled(); err != nil {
		return err
	}
	return n.(clocked).JumpClock(2 * patientTTL)
}

func clockForward(ctx context.Context, p *trial) error {
	p.Note("the server's clock is set forward by %s", text(2*patientTTL))
	return clockSetForward(ctx, p.Environment.Nodes()[0])
}

// clockSetBack sets the clock of a Redis back by an hour when a holder has died, and looks whether another worker has the lock within three TTLs. In the end
// the clock is set right, which ends all.
func clockSetBack(ctx context.Context, p *trial) error {
	if err := servers.ClockInstalled(); err != nil {
		return err
	}
	w, err := p.workers(ctx, 2)
	if err != nil {
		return err
	}
	if _, err := p.holds(ctx, w[0]); err != nil {
		return err
	}
	clock := p.Environment.Nodes()[0].(clocked)
	p.Injected()
	if err := w[0].Kill(); err != nil {
		return err
	}
	p.Note("the clock is set back by an hour")
	if err := clock.JumpClock(-time.Hour); err != nil {
		return err
	}
	within := 3 * p.Environment.TTL
	asked := history.Now()
	b, err := p.waits(ctx, w[1], within)
	switch {
	case err == nil:
		p.found(report.Safe, "B had the lock %s after A had died.", text(p.after(asked, b)))
	case taken(err):
		p.found(report.Stuck, "A was dead, and %s later, three times the TTL, the lock was still taken: B, which waited, had not got it.", text(within))
	default:
		return err
	}
	p.Note("the clock is set right")
	if err := clock.JumpClock(time.Hour); err != nil {
		return err
	}
	p.Healed()
	return nil
}
