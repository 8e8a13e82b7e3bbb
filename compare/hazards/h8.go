package hazards

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/report"
)

// h8 is a node that restarts without its data.
var h8 = []scenario{
	{
		hazard: "H8", subject: "article", world: "redlock", lock: "redlock", alone: true,
		setup: "five Redis without persistence; A reaches three of them and takes the lock there, one of the three is killed and starts again at once, empty, and " +
			"B takes the lock with the votes of that one and the two others",
		script: bareMajority("killed, and started again without data", nodeRestartedEmpty),
	},
	{
		hazard: "H8", subject: "file", world: "file", alone: true,
		setup:  "a folder; A holds the lock and is stopped in the middle of its work, the folder is replaced by an empty one, B takes the lock, and A goes on",
		script: func(ctx context.Context, p *trial) error { return behindTheBack(ctx, p, nil, folderReplaced) },
	},
	{
		hazard: "H8", subject: "redis", world: "redis", alone: true,
		setup:  "one Redis; while A holds the lock it is killed, loses its disk and starts again, empty",
		script: overtaken(diskLostAlone),
	},
	{
		hazard: "H8", subject: "redlock", world: "redlock", alone: true,
		setup: "five Redis without persistence; A reaches three of them and takes the lock there, one of the three is killed and starts again at once, empty, and " +
			"B takes the lock with the votes of that one and the two others",
		script: bareMajority("killed, and started again without data", nodeRestartedEmpty),
	},
	{
		hazard: "H8", subject: "redlock", variant: "three of five", world: "redlock", alone: true, full: true,
		setup:  "five Redis without persistence; while A holds the lock on all of them, three are killed and start again at once, empty",
		script: fullMajority("killed, and started again without data", nodeRestartedEmpty),
	},
	{
		hazard: "H8", subject: "etcd", world: "etcd", alone: true,
		setup:  "three etcds; while A holds the lock one of them is killed, loses its disk and is started again",
		script: watched(diskLost),
	},
	{
		hazard: "H8", subject: "etcd", variant: "alone", world: "etcd-alone", alone: true,
		setup:  "one etcd; the network of A, which holds the lock, falls silent, and the etcd is killed, loses its disk and starts again, empty",
		script: restartedEmpty("etcd-alone"),
	},
	{
		hazard: "H8", subject: "zookeeper", world: "zookeeper", alone: true,
		setup:  "three ZooKeepers; while A holds the lock one of them is killed, loses its disk and is started again",
		script: watched(diskLost),
	},
	{
		hazard: "H8", subject: "zookeeper", variant: "alone", world: "zookeeper-alone", alone: true,
		setup:  "one ZooKeeper; the network of A, which holds the lock, falls silent, and the ZooKeeper is killed, loses its disk and starts again, empty",
		script: restartedEmpty("zookeeper-alone"),
	},
	{
		hazard: "H8", subject: "postgres", world: "postgres", alone: true,
		setup:  "one PostgreSQL, which keeps its data but no lock over a restart; it is killed while A holds the lock, and started again when A knows",
		script: restarted,
	},
	{
		hazard: "H8", subject: "postgres", variant: "behind a silent link", world: "postgres", alone: true,
		setup:  "one PostgreSQL; the network of A, which holds the lock, falls silent, and the PostgreSQL is restarted",
		script: unheard(nodeRestarted),
	},
	{
		hazard: "H8", subject: "mysql", world: "mysql", alone: true,
		setup:  "one MariaDB, which keeps its data but no lock over a restart; it is killed while A holds the lock, and started again when A knows",
		script: restarted,
	},
	{
		hazard: "H8", subject: "mysql", variant: "behind a silent link", world: "mysql", alone: true,
		setup:  "one MariaDB; the network of A, which holds the lock, falls silent, and the MariaDB is restarted",
		script: unheard(nodeRestarted),
	},
}

// majority is how many of five votes make a lock.
const majority = 3

// bareMajority has a worker that cannot reach two of five nodes take the lock with the votes of the others, one of which forgets its vote then.
func bareMajority(what string, forget func(ctx context.Context, n environment.Node) error) script {
	return votesForgotten(majority, 1, what, forget)
}

// fullMajority has a worker take the lock with all five votes, three of which are forgotten then.
func fullMajority(what string, forget func(ctx context.Context, n environment.Node) error) script {
	return votesForgotten(5, majority, what, forget)
}

// votesForgotten has a worker that reaches only so many nodes take the lock, has some of those forget their votes by what is done to them, and another worker
// take the lock too.
func votesForgotten(reached, forgotten int, what string, forget func(ctx context.Context, n environment.Node) error) script {
	return func(ctx context.Context, p *trial) error {
		p.patient(patientTTL)
		w, err := p.workers(ctx, 2)
		if err != nil {
			return err
		}
		if links := w[0].Endpoint.Links[reached:]; len(links) > 0 {
			defer p.cutOff(w[0], "cut off from two of the five")()
			for _, l := range links {
				l.Cut()
			}
		}
		a, err := p.holds(ctx, w[0])
		if err != nil {
			return err
		}
		nodes := p.Environment.Nodes()
		for _, n := range nodes[:reached] {
			if err := p.voted(ctx, n); err != nil {
				return err
			}
		}
		p.Injected()
		p.Note("%d of the %d servers that voted for A: %s", forgotten, reached, what)
		for _, n := range nodes[:forgotten] {
			if err := forget(ctx, n); err != nil {
				return err
			}
		}
		p.Healed()
		return p.alsoGets(ctx, a, w[1])
	}
}

// voted waits until a node has the lock: a majority is enough for the holder, and the votes of the others may still be on their way.
func (p *trial) voted(ctx context.Context, n environment.Node) error {
	for limit := time.Now().Add(lasting); ; {
		there, err := redisDo(ctx, n, "EXISTS", "lockport:"+p.Name(), articleKey(p.Name()))
		if err != nil || there == int64(1) {
			return err
		}
		if time.Now().After(limit) {
			return fmt.Errorf("%s has not voted", n.Addr())
		}
		if err := p.Sleep(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}

// redisDo sends a command to a Redis.
func redisDo(ctx context.Context, n environment.Node, args ...any) (any, error) {
	return n.(interface {
		Do(ctx context.Context, args ...any) (any, error)
	}).Do(ctx, args...)
}

func nodeRestartedEmpty(ctx context.Context, n environment.Node) error {
	return errors.Join(n.Kill(), n.Restart(ctx))
}

// diskLost has one of the members that follow be killed, lose its disk, and be started again.
func diskLost(ctx context.Context, p *trial) error {
	leader, err := p.Environment.Leader(ctx)
	if err != nil {
		return err
	}
	p.Note("one of the members loses its disk")
	i := (leader + 1) % len(p.Environment.Nodes())
	ctx, cancel := context.WithTimeout(ctx, lasting)
	defer cancel()
	back, err := p.Environment.LoseDisk(ctx, i)
	switch {
	case err != nil:
		return err
	case back:
		p.Note("it is back")
		p.found(report.Safe, "The one that lost its disk came back, and the others gave it their data.")
	default:
		p.Note("it does not come back")
		p.found(report.Safe, "The one that lost its disk did not come back: it refuses to start as a member that the others have known, until an operator adds it anew.")
	}
	return nil
}

// diskLostAlone has a server that stands alone be killed, lose its disk, and be started again.
func diskLostAlone(ctx context.Context, p *trial) error {
	p.Note("the server is killed, and loses its disk")
	node := p.Environment.Nodes()[0]
	if err := errors.Join(node.Kill(), node.(interface{ WipeData() error }).WipeData(), node.Restart(ctx)); err != nil {
		return err
	}
	p.Note("the server is back, empty")
	return nil
}

func nodeRestarted(ctx context.Context, p *trial) error {
	p.Note("the server is restarted")
	if err := p.Environment.Nodes()[0].Restart(ctx); err != nil {
		return err
	}
	p.Note("the server is back")
	return nil
}

// restarted kills the server while a worker holds a lock, starts it again when that worker has been told, and has another one take the lock.
func restarted(ctx context.Context, p *trial) error {
	w, err := p.workers(ctx, 2)
	if err != nil {
		return err
	}
	a, err := p.holds(ctx, w[0])
	if err != nil {
		return err
	}
	p.Injected()
	p.Note("the server is killed")
	killed := history.Now()
	node := p.Environment.Nodes()[0]
	if err := node.Kill(); err != nil {
		return err
	}
	class, said, err := p.toldSince(ctx, a, killed)
	if err != nil {
		return err
	}
	if err := node.Restart(ctx); err != nil {
		return err
	}
	p.Healed()
	p.Note("the server is back")
	back := history.Now()
	b, err := acquired(ctx, p, w[1], p.Name())
	if err != nil {
		return err
	}
	p.found(class, "When the server was killed, A %s. B had the lock %s after the server was back.", said, text(p.event(b.Worker, b.Op, history.Got).At.Sub(back)))
	return nil
}

// restartedEmpty plays the cell of that name, whose holder hears nothing, and has both believe for a while.
func restartedEmpty(world string) script {
	return func(ctx context.Context, p *trial) error {
		if err := of(world, "server-restarted-empty", 0)(ctx, p); err != nil {
			return err
		}
		if err := p.Sleep(ctx, believed); err != nil {
			return err
		}
		return p.Workers()[0].Kill() // it would try to release for 5 s
	}
}

// folderReplaced has an empty folder take the place of that with the locks.
func folderReplaced(_ context.Context, p *trial, _ string) error {
	path, err := p.Environment.Folder()
	if err != nil {
		return err
	}
	p.Note("an empty folder takes the place of the one with the locks")
	return replaceFolder(path)
}
