package hazards

import (
	"context"
	"errors"
	"time"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/report"
	"github.com/lockport/lockport/internal/lab/servers"
)

// h7 is a server that fails before it has copied the lock.
var h7 = []scenario{
	{
		hazard: "H7", subject: "article", world: "redis-failover", lock: "set-nx-px", alone: true,
		setup:  "a Redis with a replica; the link between them is cut, A takes the lock, the master is killed and the replica promoted",
		script: unreplicated,
	},
	{hazard: "H7", subject: "file", notRun: "There is no server, and so no copy that could lag: all processes lock the files of one machine."},
	{
		hazard: "H7", subject: "redis", world: "redis-failover", alone: true,
		setup:  "a Redis with a replica; the link between them is cut, A takes the lock, the master is killed and the replica promoted",
		script: unreplicated,
	},
	{
		hazard: "H7", subject: "redis", variant: "replicas=1", world: "redis-replicas", alone: true,
		setup: "the same, with the option replicas=1: a lock counts as had when the replica has it; the link is cut while A holds the lock, the master is killed, " +
			"and the replica promoted",
		script: replicated,
	},
	{
		hazard: "H7", subject: "redis", variant: "Sentinel", world: "redis-sentinel", alone: true, full: true,
		setup:  "a Redis with a replica and three Sentinels; the replica is kept from copying, A takes the lock, the master is killed, and the Sentinels promote the replica",
		script: of("redis-sentinel", "master-killed-behind-cut-link", patientTTL),
	},
	{
		hazard: "H7", subject: "redlock", world: "redlock", alone: true,
		setup:  "five Redis that know nothing of each other; one of them is killed while A holds the lock",
		script: watched(nodeKilled),
	},
	{
		hazard: "H7", subject: "etcd", world: "etcd", alone: true,
		setup:  "three etcds; their leader is killed while A holds the lock",
		script: watched(leaderKilled),
	},
	{
		hazard: "H7", subject: "zookeeper", world: "zookeeper", alone: true,
		setup:  "three ZooKeepers; their leader is killed while A holds the lock",
		script: watched(leaderKilled),
	},
	{
		hazard: "H7", subject: "postgres", world: "postgres-failover", alone: true,
		setup:  "a PostgreSQL with a replica; the network of A, which holds the lock, falls silent, the primary is killed, and the replica promoted",
		script: unheard(replaced),
	},
	{
		hazard: "H7", subject: "postgres", variant: "two primaries", world: "postgres-failover", alone: true, full: true,
		setup:  "a PostgreSQL with a replica that lags; the replica is promoted while the old primary lives on, and A with it",
		script: twoPrimaries("split-brain"),
	},
	{
		hazard: "H7", subject: "postgres", variant: "two primaries and a crash", world: "postgres-failover", alone: true, full: true,
		setup:  "a PostgreSQL with a replica, which is promoted while the old primary lives on, and A with it; the old primary crashes and starts again",
		script: twoPrimaries("split-brain-and-crash"),
	},
	{
		hazard: "H7", subject: "mysql", world: "mysql", alone: true,
		setup:  "a MariaDB, and another one that takes its place, as a replica that is promoted does; the old one lives on, and A, which holds the lock, with it",
		script: twoMariaDBs,
	},
}

func nodeKilled(_ context.Context, p *trial) error {
	p.Note("one of the five is killed")
	return p.Environment.Nodes()[0].Kill()
}

func leaderKilled(ctx context.Context, p *trial) error {
	leader, err := p.Environment.Leader(ctx)
	if err != nil {
		return err
	}
	p.Note("the leader is killed")
	return p.Environment.Nodes()[leader].Kill()
}

func replaced(ctx context.Context, p *trial) error {
	p.Note("the server is killed, and its replica is to take its place")
	if err := p.FailOver(ctx); err != nil {
		return err
	}
	p.Note("the replica has taken its place")
	return nil
}

// unreplicated has a replica hear nothing, a worker take a lock, and the replica take the place of its master, which is killed.
func unreplicated(ctx context.Context, p *trial) error {
	p.Note("the replica hears nothing any more")
	if err := p.Environment.Lag(ctx); err != nil {
		return err
	}
	return overtaken(replaced)(ctx, p)
}

// replicated has a replica hear nothing while a worker holds a lock that it has, looks whether another lock can be had then, and has it take the place of its
// master, which is killed.
func replicated(ctx context.Context, p *trial) error {
	return watched(func(ctx context.Context, p *trial) error {
		p.Note("the replica hears nothing any more")
		if err := p.Environment.Lag(ctx); err != nil {
			return err
		}
		w, err := p.Worker(ctx)
		if err != nil {
			return err
		}
		asked := time.Now()
		h, err := w.TryAcquire(ctx, p.Name()+"-unheard", 2*time.Second)
		if err == nil {
			p.found(report.Unsafe, "A lock was granted of which the replica had not heard.")
			return h.Release(ctx)
		}
		if !busy(err) && !refusedFor(err, history.ClassTimedOut) {
			return err
		}
		p.found(report.Unavailable, "While the replica heard nothing no lock was granted: D's attempt ended with an error after %s.", text(time.Since(asked)))
		return replaced(ctx, p)
	})(ctx, p)
}

// twoPrimaries plays a cell in which an old primary lives on, and has both holders believe for a while.
func twoPrimaries(fault string) script {
	return func(ctx context.Context, p *trial) error {
		return errors.Join(of("postgres-failover", fault, 0)(ctx, p), p.Sleep(ctx, believed))
	}
}

// twoMariaDBs has a server that knows nothing take the place of one that lives on, and a holder with it.
func twoMariaDBs(ctx context.Context, p *trial) (err error) {
	older, err := p.Worker(ctx)
	if err != nil {
		return err
	}
	a, err := p.holds(ctx, older)
	if err != nil {
		return err
	}
	spare, err := servers.StartMariaDB(ctx, servers.MariaDBOptions{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, spare.Close()) }()
	p.Injected()
	p.Note("another server takes the place of the first one, which lives on")
	world := *p.Environment
	seat := world.Endpoint
	world.Endpoint = func() (*environment.Endpoint, error) {
		s, err := seat()
		if err == nil {
			err = s.Links[0].Retarget(spare.Addr())
		}
		return s, err
	}
	p.Environment = &world
	newer, err := p.Worker(ctx)
	if err != nil {
		return err
	}
	b, err := acquired(ctx, p, newer, p.Name())
	if err != nil {
		return err
	}
	if err := p.bothWrite(ctx, a, b); err != nil {
		return err
	}
	return b.Release(ctx)
}
