package hazards

import (
	"context"
	"time"

	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

// lateBy is by how much what is sent comes late, on its way there and on its way back: by so much that a holder which counts its time from the answer still
// believes in a lock that has ended, with the margin of 5 % and 10 ms that lockport keeps. A claim of ZooKeeper's has four requests, one after the other.
const lateBy, lateByZooKeeper = 300 * time.Millisecond, 100 * time.Millisecond

// lastAnswerTTL is one of which a quarter, in which the first renewal comes, is enough for somebody who waits to see that the lock is free.
const lastAnswerTTL = 3 * time.Second

// h10 is a node that answers late, or never, so that little is left of the lock when it is had.
var h10 = []scenario{
	{
		hazard: "H10", subject: "article", world: "redlock", lock: "believes-from-the-last-answer",
		setup:  "five Redis, the last of which does not answer A, which waits for its answer and then takes the lock as had; B asks for the lock meanwhile",
		script: lastAnswer,
	},
	{hazard: "H10", subject: "file", notRun: "There is no network between a process and the files of its machine, and nobody to be waited for."},
	slowServer("redis", "one Redis", lateBy),
	{
		hazard: "H10", subject: "redlock", world: "redlock",
		setup:  "five Redis, two of which do not answer A; when it has the lock its network falls silent as a whole, while B asks for the lock",
		script: minorityHangs,
	},
	slowServer("etcd", "three etcds", lateBy),
	slowServer("zookeeper", "three ZooKeepers", lateByZooKeeper),
	slowServer("postgres", "one PostgreSQL", lateBy),
	slowServer("mysql", "one MariaDB", lateBy),
}

func slowServer(subject, servers string, by time.Duration) scenario {
	return scenario{
		hazard: "H10", subject: subject, world: subject, script: slowAnswers(by),
		setup: servers + "; all that A sends and is sent comes " + text(by) + " late, and when it has the lock its network falls silent, while B asks for the lock",
	}
}

// lastAnswer has a worker wait for a node that does not answer, while another one, to which all nodes answer, asks for the lock too.
func lastAnswer(ctx context.Context, p *trial) error {
	p.patient(lastAnswerTTL)
	w, err := p.workers(ctx, 2)
	if err != nil {
		return err
	}
	p.Injected()
	p.Note("one of the five servers does not answer A")
	defer p.cutOff(w[0], "one of the five does not answer")()
	last := w[0].Endpoint.Links[len(w[0].Endpoint.Links)-1]
	last.Freeze()
	defer last.DropHeld()
	slow, err := p.ask(ctx, w[0], lasting)
	if err != nil {
		return err
	}
	if err := p.Sleep(ctx, p.Environment.TTL/4); err != nil {
		return err
	}
	b, err := w[1].Acquire(ctx, p.Name(), lasting)
	if err != nil {
		return err
	}
	a, err := slow.wait()
	if err != nil {
		return err
	}
	asked, had := p.event(w[0], a.Op, history.Asked).At, p.event(w[0], a.Op, history.Got).At
	p.found(report.Safe, "It took A %s to get the lock, which the servers keep for %s; they gave it to B %s after A had asked.",
		text(had.Sub(asked)), text(p.Environment.TTL), text(p.after(asked, b)))
	return p.bothWrite(ctx, a, b)
}

// slowAnswers has a worker get the lock by answers that come late, and then none at all, and another one ask for the lock all the while.
func slowAnswers(by time.Duration) script {
	return func(ctx context.Context, p *trial) error {
		return validity(ctx, p, func(w *play.Worker) {
			p.Note("what A sends and is sent comes %s late", text(by))
			for _, l := range w.Endpoint.Links {
				l.Delay(by)
			}
		})
	}
}

// minorityHangs does the same where two of five nodes do not answer.
func minorityHangs(ctx context.Context, p *trial) error {
	return validity(ctx, p, func(w *play.Worker) {
		p.Note("two of the five servers do not answer A")
		for _, l := range w.Endpoint.Links[3:] {
			l.Freeze()
		}
	})
}

// validity looks whether the first holder's belief has ended when the second one has the lock.
func validity(ctx context.Context, p *trial, slow func(*play.Worker)) error {
	w, err := p.workers(ctx, 2)
	if err != nil {
		return err
	}
	if err := p.warmUp(ctx, w[0]); err != nil {
		return err
	}
	p.Injected()
	slow(w[0])
	a, err := w[0].Acquire(ctx, p.Name(), lasting)
	if err != nil {
		return err
	}
	p.Note("A has the lock, and its network falls silent")
	defer p.silence(w[0])()
	b, err := acquired(ctx, p, w[1], p.Name())
	if err != nil {
		return err
	}
	if _, err := p.told(ctx, a, lasting); err != nil {
		return err
	}
	p.Healed()
	asked, had := p.event(w[0], a.Op, history.Asked).At, p.event(w[0], a.Op, history.Got).At
	p.found(report.Safe, "It took A %s to get the lock, and A believed in it for %s more; the TTL is %s.",
		text(had.Sub(asked)), text(a.Deadline.Sub(had)), text(p.Environment.TTL))
	if gap := p.event(w[1], b.Op, history.Got).At.Sub(a.Deadline); gap > 0 {
		p.found(report.Safe, "B had the lock %s after A's belief had ended.", text(gap))
	}
	return nil
}
