package hazards

import (
	"context"
	"fmt"
	"time"

	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

const tamperedSetup = " while A holds the lock, twice: once A goes on and is told; once A is stopped in the middle of its work, B takes the lock and writes, and A goes on and writes too"

// h13 is a lock that somebody takes away from its holder.
var h13 = []scenario{
	{
		hazard: "H13", subject: "article", world: "redis", lock: "set-nx-px",
		setup:  "one Redis; an operator deletes the key" + tamperedSetup,
		script: tampered(tamperedTTL, articleDeleted),
	},
	{
		hazard: "H13", subject: "file", world: "file",
		setup:  "a folder; an operator removes the file" + tamperedSetup,
		script: tampered(0, removed),
	},
	{
		hazard: "H13", subject: "redis", world: "redis",
		setup:  "one Redis; an operator deletes the key" + tamperedSetup,
		script: tampered(tamperedTTL, removed),
	},
	{
		hazard: "H13", subject: "redlock", world: "redlock",
		setup:  "five Redis; an operator deletes the key on each" + tamperedSetup,
		script: tampered(tamperedTTL, removed),
	},
	{
		hazard: "H13", subject: "etcd", world: "etcd",
		setup:  "three etcds; an operator deletes the key" + tamperedSetup,
		script: tampered(tamperedTTL, removed),
	},
	{
		hazard: "H13", subject: "zookeeper", world: "zookeeper",
		setup:  "three ZooKeepers; an operator deletes the node" + tamperedSetup,
		script: tampered(0, removed),
	},
	{
		hazard: "H13", subject: "postgres", world: "postgres",
		setup:  "one PostgreSQL; an administrator ends the session (pg_terminate_backend)" + tamperedSetup,
		script: tampered(tamperedTTL, removed),
	},
	{
		hazard: "H13", subject: "mysql", world: "mysql",
		setup:  "one MariaDB; an administrator ends the session (KILL)" + tamperedSetup,
		script: tampered(tamperedTTL, removed),
	},
}

// tamperedTTL is long enough for somebody to take a lock and write before the deadline of a holder that is stopped, and short enough for one that runs to
// look soon whether its lock is still there.
const tamperedTTL = 4 * time.Second

// tampered takes the lock of a worker away at the server by remove, and looks when it is told; and then once more behind its back.
func tampered(ttl time.Duration, remove removal) script {
	return func(ctx context.Context, p *trial) error {
		p.patient(ttl)
		w, err := p.Worker(ctx)
		if err != nil {
			return err
		}
		name := p.Name() + "-told"
		a, err := w.Acquire(ctx, name, lasting)
		if err != nil {
			return err
		}
		begun := history.Now()
		if err := remove(ctx, p, name); err != nil {
			return err
		}
		class, said, err := p.toldSince(ctx, a, begun)
		if err != nil {
			return err
		}
		p.found(class, "When its lock was taken away, A %s.", said)
		return behindTheBack(ctx, p, w, remove)
	}
}

// removal takes the lock on name away from its holder.
type removal = func(ctx context.Context, p *trial, name string) error

// behindTheBack has a holder, a new worker if it is nil, stop in the middle of its work, takes its lock away by remove, has another worker take the lock and
// write, and lets the first one go on, which writes too before it looks at its lock.
func behindTheBack(ctx context.Context, p *trial, holder *play.Worker, remove removal) (err error) {
	if holder == nil {
		if holder, err = p.Worker(ctx); err != nil {
			return err
		}
	}
	other, err := p.Worker(ctx)
	if err != nil {
		return err
	}
	a, err := p.holds(ctx, holder)
	if err != nil {
		return err
	}
	if err := holder.Stop(); err != nil {
		return err
	}
	p.Injected()
	p.Note("A is stopped, and its lock taken away")
	begun := history.Now()
	if err := remove(ctx, p, p.Name()); err != nil {
		return err
	}
	b, err := acquired(ctx, p, other, p.Name())
	if taken(err) {
		p.found(report.Safe, "B did not get the lock within %s.", text(lasting))
		return nil
	}
	if err != nil {
		return err
	}
	if err := b.Update(ctx); err != nil {
		return err
	}
	if err := p.Sleep(ctx, believed); err != nil {
		return err
	}
	resumed := history.Now()
	if err := holder.Resume(); err != nil {
		return err
	}
	p.Note("A goes on, and writes")
	if err := a.Update(ctx); err != nil {
		return err
	}
	class, said, err := p.toldSince(ctx, a, resumed)
	if err != nil {
		return err
	}
	p.Healed()
	p.found(class, "A was stopped, its lock was taken away, and B had it %s later; when A went on it wrote before it looked at its lock, and then %s.",
		text(p.event(other, b.Op, history.Got).At.Sub(begun)), said)
	return nil
}

// toldSince waits until a worker knows of its loss, and says for people how long after an instant it did.
func (p *trial) toldSince(ctx context.Context, h *play.Hold, since history.Instant) (report.Class, string, error) {
	if _, err := p.told(ctx, h, lasting); err != nil {
		return "", "", err
	}
	told := p.event(h.Worker, h.Op, history.Told).At
	if told == 0 {
		return report.Misled, fmt.Sprintf("still believed in it %s later", text(lasting)), nil
	}
	return report.Safe, fmt.Sprintf("was told of its loss after %s", text(max(0, told.Sub(since)))), nil
}

// removed has an operator remove a lock of lockport's.
func removed(ctx context.Context, p *trial, name string) error {
	return p.Remove(ctx, name)
}

// articleDeleted has an operator delete the key of an article's lock.
func articleDeleted(ctx context.Context, p *trial, name string) error {
	p.Note("%s%s", history.Removed, name)
	_, err := redisDo(ctx, p.Environment.Nodes()[0], "DEL", articleKey(name))
	return err
}

// articleKey is the key of an article's lock.
func articleKey(name string) string { return "lock:" + name }
