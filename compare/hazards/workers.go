package hazards

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

// What comes from workers and their network can happen to every backend. standing is where it is played, in the order of the columns.
var standing = []struct{ subject, world, what string }{
	{"file", "file", "a folder of one machine"},
	{"redis", "redis", "a Redis that keeps its data"},
	{"redlock", "redlock", "five Redis under Redlock"},
	{"etcd", "etcd", "three etcds"},
	{"zookeeper", "zookeeper", "three ZooKeepers"},
	{"postgres", "postgres", "a PostgreSQL"},
	{"mysql", "mysql", "a MariaDB"},
}

// everywhere makes scenarios of s for each backend but those of instead, which have their own. What s says of its setup follows upon the servers.
func everywhere(s scenario, instead ...scenario) []scenario {
	all := instead
	for _, at := range standing {
		if slices.ContainsFunc(instead, func(o scenario) bool { return o.subject == at.subject }) {
			continue
		}
		one := s
		one.subject, one.world, one.setup, one.plays = at.subject, at.world, at.what+"; "+s.setup, backendPlays
		all = append(all, one)
	}
	return all
}

// onRedis makes the scenario of the lock of an article, which is on one Redis.
func onRedis(s scenario, lock string) scenario {
	s.subject, s.world, s.lock, s.setup, s.plays = report.Article, "redis", lock, "a Redis that keeps its data; "+s.setup, articlePlays
	return s
}

const (
	// backendPlays and articlePlays are how often a quick run plays what is done to workers: several at a time, so that it costs little.
	backendPlays, articlePlays = 2, 3
	// patience is how many TTLs somebody waits for a lock that should be free after one, until it is called locked for ever.
	patience = 5
	// rounds is how often a play repeats what must hit an interval that lies between two renewals.
	rounds = 3
)

// limit is how long somebody waits for a lock that should end with its TTL, or the process.
func (p *trial) limit() time.Duration { return patience * p.Environment.TTL }

// waits has a worker wait for the lock for so long; a server that is too busy to answer in time, as it may be when all have just been started, is asked again.
func (p *trial) waits(ctx context.Context, w *play.Worker, within time.Duration) (h *play.Hold, err error) {
	for begun := time.Now(); ; {
		h, err = w.Acquire(ctx, p.Name(), max(within-time.Since(begun), time.Millisecond))
		if !busy(err) || time.Since(begun) > within {
			return h, err
		}
		if err := p.Sleep(ctx, 10*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// pending is an acquisition that is under way.
type pending struct {
	over chan struct{}
	hold *play.Hold
	err  error
}

// ask has a worker wait for the lock for so long, and returns when it has begun to.
func (p *trial) ask(ctx context.Context, w *play.Worker, within time.Duration) (*pending, error) {
	return p.askBy(ctx, w, func() (*play.Hold, error) { return w.Acquire(ctx, p.Name(), within) })
}

// askBy is ask where acquire asks.
func (p *trial) askBy(ctx context.Context, w *play.Worker, acquire func() (*play.Hold, error)) (*pending, error) {
	before := p.asked(w)
	a := &pending{over: make(chan struct{})}
	go func() {
		defer close(a.over)
		a.hold, a.err = acquire()
	}()
	for p.asked(w) == before {
		select {
		case <-a.over:
			return a, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(time.Millisecond):
		}
	}
	return a, nil
}

// asked is how often a worker has asked for the lock.
func (p *trial) asked(w *play.Worker) (n int) {
	for _, e := range p.Events() {
		if e.Worker == w.Name && e.Kind == history.Asked && e.Name == p.Name() {
			n++
		}
	}
	return n
}

// wait returns what became of it.
func (a *pending) wait() (*play.Hold, error) {
	<-a.over
	return a.hold, a.err
}

// after is how long after an instant a hold was got.
func (p *trial) after(since history.Instant, h *play.Hold) time.Duration {
	return p.event(h.Worker, h.Op, history.Got).At.Sub(since)
}

// taken says that somebody was refused a lock because somebody has it, or waited for it in vain.
func taken(err error) bool {
	return refusedFor(err, history.ClassHeld) || refusedFor(err, history.ClassTimedOut)
}

// busy says that somebody was refused a lock because no server answered in time.
func busy(err error) bool { return refusedFor(err, history.ClassUnavailable) }

func refusedFor(err error, class history.Class) bool {
	refusal := new(play.AcquireError)
	return errors.As(err, &refusal) && refusal.Class == class
}

// stuck is what is found of a lock that was to be free: still taken when somebody has waited for it in vain since what happened to its holder. Other errors
// are the script's own.
func (p *trial) stuck(err error, since history.Instant, what string) error {
	if !taken(err) {
		return err
	}
	took := history.Now().Sub(since)
	p.found(report.Stuck, "%s after %s the lock was still taken, %.1f times its TTL.", text(took), what, float64(took)/float64(p.Environment.TTL))
	return nil
}

// tries has a worker try to get the lock every so often until it does, or until is closed, or it has tried for as long as limit, and returns how often it did.
func (p *trial) tries(ctx context.Context, w *play.Worker, every, limit time.Duration, until <-chan struct{}) (h *play.Hold, n int, err error) {
	for begun := time.Now(); ; {
		n++
		if h, err = w.TryAcquire(ctx, p.Name(), p.Environment.TTL); err == nil || time.Since(begun) > limit {
			return h, n, err
		}
		if !taken(err) && !busy(err) {
			return nil, n, err
		}
		select {
		case <-until:
			return nil, n, err
		case <-time.After(every):
		case <-ctx.Done():
			return nil, n, context.Cause(ctx)
		}
	}
}

// silenced has the network of a worker fall silent, and returns what ends that: what was on its way arrives then.
func (p *trial) silenced(w *play.Worker) (end func()) {
	over := p.cutOff(w, "silent")
	for _, l := range w.Endpoint.Links {
		l.Freeze()
	}
	return func() {
		over()
		for _, l := range w.Endpoint.Links {
			l.Restore()
		}
	}
}
