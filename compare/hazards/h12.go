package hazards

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockport/lockport/compare/report"
	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/faults/worlds"
	"github.com/lockport/lockport/internal/faultproxy"
)

const silentSetup = "; the network falls silent for A, which holds the lock and releases it, and for B, which asks for another lock with a limit of 1 s; when it is back, C asks for A's lock"

// h12 is a server that is not there when a lock is acquired or released.
var h12 = []scenario{
	{
		hazard: "H12", subject: "article", world: "redis", lock: "release-swallows-errors",
		setup: "one Redis" + silentSetup, script: away(patientTTL, silent),
	},
	{
		hazard: "H12", subject: "article", variant: "an error is taken for held", world: "redis", lock: "takes-an-error-for-held",
		setup:  "one Redis; the network is cut for A, which holds the lock and releases it, and for B, which asks for another lock; when it is back, C asks for A's lock",
		script: away(0, closed),
	},
	{
		hazard: "H12", subject: "file", world: "file", alone: true,
		setup:  "a folder; it is moved away while A holds the lock, A releases it, and B asks for another lock with a limit of 1 s; when the folder is back, C asks for A's lock",
		script: away(0, folderAway),
	},
	{hazard: "H12", subject: "redis", world: "redis", setup: "one Redis" + silentSetup, script: away(0, silent)},
	{hazard: "H12", subject: "redlock", world: "redlock", setup: "five Redis" + silentSetup, script: away(0, silent)},
	{hazard: "H12", subject: "etcd", world: "etcd", setup: "three etcds" + silentSetup, script: away(0, silent)},
	{hazard: "H12", subject: "zookeeper", world: "zookeeper", setup: "three ZooKeepers" + silentSetup, script: away(0, silent)},
	{hazard: "H12", subject: "postgres", world: "postgres", setup: "one PostgreSQL" + silentSetup, script: away(0, silent)},
	{hazard: "H12", subject: "mysql", world: "mysql", setup: "one MariaDB" + silentSetup, script: away(0, silent)},
}

// silent has the network of workers fall silent.
func silent(_ context.Context, p *play, w []*faults.Worker) (back func() error, err error) {
	return p.apart("silent", (*faultproxy.Proxy).Freeze, w...), nil
}

// closed has the connections of workers closed, and no new ones accepted.
func closed(_ context.Context, p *play, w []*faults.Worker) (back func() error, err error) {
	return p.apart("cut", (*faultproxy.Proxy).Cut, w...), nil
}

func folderAway(_ context.Context, p *play, _ []*faults.Worker) (back func() error, err error) {
	path, err := worlds.Folder(p.World)
	if err != nil {
		return nil, err
	}
	p.Note("the folder is moved away")
	return moveAway(path)
}

// askedFor is the time limit of who asks for a lock while the server is away, and late is by how much more that may be exceeded.
const askedFor, late = time.Second, time.Second

// away has one worker release a lock, and another one ask for another lock, while the server is away for both, and a third one ask for the lock when it is back.
func away(ttl time.Duration, gone func(ctx context.Context, p *play, w []*faults.Worker) (back func() error, err error)) script {
	return func(ctx context.Context, p *play) error {
		p.patient(ttl)
		w, err := p.workers(ctx, 3)
		if err != nil {
			return err
		}
		if err := p.warmUp(ctx, w...); err != nil {
			return err
		}
		a, err := w[0].Acquire(ctx, p.Name(), lasting)
		if err != nil {
			return err
		}
		p.Struck()
		back, err := gone(ctx, p, w[:2])
		if err != nil {
			return err
		}
		released := make(chan error, 1)
		go func() { released <- a.Release(ctx) }()
		other := p.Name() + "-other"
		if b, err := w[1].TryAcquire(ctx, other, askedFor); err == nil {
			return fmt.Errorf("%s got a lock while the server was away", b.Worker.Name)
		}
		if err := errors.Join(<-released, back()); err != nil {
			return err
		}
		p.Mended()
		p.Note("it is back")
		p.answered(w[1], other)
		if p.event(w[0], a.Op, faults.Released).Err == "" {
			if _, err := w[2].TryAcquire(ctx, p.Name(), askedFor); err != nil {
				p.found(report.Misled, "A's Release returned without an error, and when the server was back the lock was still taken: until it expires nobody has it.")
				return nil
			}
			return nil
		}
		p.found(report.Unavailable, "A's Release returned after %s with an error: %s.",
			text(p.event(w[0], a.Op, faults.Released).At.Sub(p.event(w[0], a.Op, faults.Releasing).At)), p.event(w[0], a.Op, faults.Released).Class)
		begun := time.Now()
		if _, err := acquired(ctx, p, w[2], p.Name()); err != nil {
			p.found(report.Stuck, "When the server was back, nobody had A's lock within %s.", text(lasting))
			return nil
		}
		p.found(report.Unavailable, "When the server was back, C had A's lock after %s.", text(time.Since(begun)))
		return nil
	}
}

// answered says what a worker was told that asked for a lock that nobody had.
func (p *play) answered(w *faults.Worker, name string) {
	var asked, failed faults.Event
	for _, e := range p.Events() {
		if e.Worker != w.Name || e.Name != name {
			continue
		}
		switch e.Kind {
		case faults.Asked:
			asked = e
		case faults.Failed:
			failed = e
		}
	}
	took := failed.At.Sub(asked.At)
	switch {
	case failed.Class == faults.ClassHeld:
		p.found(report.Misled, "B was told that somebody else had a lock that nobody had.")
	case took > askedFor+late:
		p.found(report.Stuck, "B hung: its attempt with a limit of 1 s returned after %s.", text(took))
	default:
		p.found(report.Unavailable, "B's attempt returned after %s with an error: %s.", text(took), failed.Class)
	}
}
