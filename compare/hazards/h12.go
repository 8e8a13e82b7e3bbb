package hazards

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
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
func silent(_ context.Context, p *trial, w []*play.Worker) (back func() error, err error) {
	p.Note("the network of A and B falls silent")
	return p.apart("silent", (*faultproxy.Proxy).Freeze, w...), nil
}

// closed has the connections of workers closed, and no new ones accepted.
func closed(_ context.Context, p *trial, w []*play.Worker) (back func() error, err error) {
	p.Note("the network of A and B is cut")
	return p.apart("cut", (*faultproxy.Proxy).Cut, w...), nil
}

func folderAway(_ context.Context, p *trial, _ []*play.Worker) (back func() error, err error) {
	path, err := p.Environment.Folder()
	if err != nil {
		return nil, err
	}
	p.Note("the folder is moved away")
	return moveAway(path)
}

const (
	// askedFor is the time limit of who asks for a lock while the server is away, and late is by how much that may be exceeded before the caller counts as hung:
	// far more than a busy machine needs.
	askedFor, late = time.Second, 4 * time.Second
	// hung is when a Release that has not returned counts as hung; lockport's returns within 5 s.
	hung = 12 * time.Second
)

// away has one worker release a lock, and another one ask for another lock, while the server is away for both, and a third one ask for the lock when it is back.
func away(ttl time.Duration, gone func(ctx context.Context, p *trial, w []*play.Worker) (back func() error, err error)) script {
	return func(ctx context.Context, p *trial) error {
		p.patient(ttl)
		w, err := p.workers(ctx, 3)
		if err != nil {
			return err
		}
		if err := p.warmUp(ctx, w...); err != nil {
			return err
		}
		a, err := p.holds(ctx, w[0])
		if err != nil {
			return err
		}
		p.Injected()
		back, err := gone(ctx, p, w[:2])
		if err != nil {
			return err
		}
		released := p.release(ctx, a)
		over := time.After(hung)
		other := p.Name() + "-other"
		if b, err := w[1].TryAcquire(ctx, other, askedFor); err == nil {
			return fmt.Errorf("%s got a lock while the server was away", b.Worker.Name)
		}
		returned := true
		select {
		case err = <-released:
		case <-over:
			returned = false
			p.found(report.Stuck, "A's Release had not returned after %s.", text(hung))
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if err := errors.Join(err, back()); err != nil {
			return err
		}
		p.Healed()
		p.Note("the fault is over")
		p.answered(w[1], other)
		if !returned {
			return nil
		}
		ended := p.event(w[0], a.Op, history.Released)
		took := text(ended.At.Sub(p.event(w[0], a.Op, history.Releasing).At))
		if ended.Err == "" {
			switch _, err := w[2].TryAcquire(ctx, p.Name(), lasting); {
			case err == nil:
				p.found(report.Safe, "A's Release returned after %s without an error, and when the server was back C had A's lock at once.", took)
			case refusedFor(err, history.ClassHeld):
				p.found(report.Misled, "A's Release returned after %s without an error, and when the server was back the lock was still taken: C was refused.", took)
			default:
				return err
			}
			return nil
		}
		p.found(report.Unavailable, "A's Release returned after %s with an error: %s.", took, told(ended.Class))
		begun := time.Now()
		switch _, err := acquired(ctx, p, w[2], p.Name()); {
		case taken(err):
			p.found(report.Stuck, "When the server was back, C waited for A's lock for %s in vain.", text(lasting))
			return nil
		case err != nil:
			return err
		}
		p.found(report.Unavailable, "When the server was back, C had A's lock after %s.", text(time.Since(begun)))
		return nil
	}
}

// answered says what a worker was told that asked for a lock that nobody had.
func (p *trial) answered(w *play.Worker, name string) {
	var asked, failed history.Event
	for _, e := range p.Events() {
		if e.Worker != w.Name || e.Name != name {
			continue
		}
		switch e.Kind {
		case history.Asked:
			asked = e
		case history.Failed:
			failed = e
		}
	}
	took := failed.At.Sub(asked.At)
	switch {
	case failed.Class == history.ClassHeld:
		p.found(report.Misled, "B was told that somebody else had a lock that nobody had (after %s).", text(took))
	case took > askedFor+late:
		p.found(report.Stuck, "B hung: its attempt, with a limit of %s, returned after %s.", text(askedFor), text(took))
	default:
		p.found(report.Unavailable, "B's attempt, with a limit of %s, returned after %s with an error: %s.", text(askedFor), text(took), told(failed.Class))
	}
}

// told says for people what an error tells a caller.
func told(c history.Class) string {
	switch c {
	case history.ClassUnavailable:
		return "the server cannot be reached"
	case history.ClassRefused:
		return "the server does not allow it"
	case history.ClassTimedOut:
		return "no answer in time"
	case history.ClassLost:
		return "the lock is lost"
	}
	return endingOf(c)
}
