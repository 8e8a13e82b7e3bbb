package hazards

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

// h3 is a release that comes late and deletes the lock of the next holder.
var h3 = everywhere(lateRelease, onRedis(lateRelease, "plain-del"))

var lateRelease = scenario{
	hazard: "H3", script: releasedLate,
	setup: "A has the lock and is stopped (SIGSTOP) until its TTL has passed and B has the lock; A goes on and releases what it takes for its lock; C asks for it",
}

// h5 are owner ids that collide. Where the server itself knows whose a lock is, there are none.
var h5 = everywhere(sameOwner, onRedis(sameOwner, "four-digit-owner"), inFull("thread id", onRedis(sameOwner, "thread-id-owner")),
	scenario{hazard: "H5", subject: "file", notRun: "There are no ids of owners: the system knows which process has a file locked."},
	scenario{hazard: "H5", subject: "postgres", notRun: "There are no ids of owners: a lock belongs to a session, which the server tells from others by its connection."},
	scenario{hazard: "H5", subject: "mysql", notRun: "There are no ids of owners: a lock belongs to a session, which the server tells from others by its connection."},
)

var sameOwner = scenario{
	hazard: "H5", script: releasedLate,
	setup: "A has the lock and is stopped (SIGSTOP) until its TTL has passed and B has the lock, by the first owner id of its own process; A goes on and releases by its owner id; C asks " +
		"for the lock",
}

// h4 is a release that looks whose the lock is, and deletes it a while later.
var h4 = everywhere(heldUpRelease, onRedis(comparedAndDeleted, "get-then-del"), inFull("WATCH", onRedis(comparedAndDeleted, "watch-multi")),
	scenario{hazard: "H4", subject: "file", notRun: "There is no network on which a release could be held up, and nothing to compare: the system ends a process's own lock."},
)

var heldUpRelease = scenario{
	hazard: "H4", script: releaseHeldUp(1),
	setup: "A releases its lock, and the network holds that up until the TTL has passed and B has the lock; then it arrives; C asks for the lock",
}

var comparedAndDeleted = scenario{
	hazard: "H4", script: releaseHeldUp(2),
	setup: "A releases its lock; it has asked whose that is and been told, and what it sends next the network holds up until the TTL has passed and B has the lock; then " +
		"that arrives; C asks for the lock",
}

// inFull makes another variant of a scenario, for full runs.
func inFull(variant string, s scenario) scenario {
	s.variant, s.full = variant, true
	return s
}

// releasedLate has A stopped until B has its lock, and then release.
func releasedLate(ctx context.Context, p *trial) error {
	w, err := p.workers(ctx, 3)
	if err != nil {
		return err
	}
	a, b, c := w[0], w[1], w[2]
	for round := 1; ; round++ {
		older, err := p.waits(ctx, a, p.limit())
		if err != nil {
			return err
		}
		if err := p.Sleep(ctx, holding); err != nil {
			return err
		}
		next, stopped, err := p.stopUntilNext(ctx, older, b)
		if err != nil || next == nil {
			return err
		}
		// From here to the next renewal is longest.
		if err := next.Renewed(ctx); err != nil {
			return err
		}
		p.Note("A goes on, after %s, and releases", text(history.Now().Sub(stopped)))
		if err := a.Resume(); err != nil {
			return err
		}
		p.Healed()
		in, err := p.whileReleased(ctx, older, c)
		if err != nil {
			return err
		}
		again, err := p.enteredBeside(ctx, next, in, round, "A's late release")
		if err != nil || !again {
			return err
		}
	}
}

// releaseHeldUp has A release, holds up what it sends from request n on until B has the lock, and then lets it arrive.
func releaseHeldUp(n int) script {
	return func(ctx context.Context, p *trial) error {
		w, err := p.workers(ctx, 3)
		if err != nil {
			return err
		}
		a, b, c := w[0], w[1], w[2]
		for round := 1; ; round++ {
			older, err := p.hasRenewed(ctx, a)
			if err != nil {
				return err
			}
			p.Injected()
			released, arrive, err := p.holdUp(ctx, older, n)
			if err != nil {
				return err
			}
			next, err := p.waits(ctx, b, p.limit())
			if err == nil {
				err = next.Renewed(ctx)
			}
			p.Note("what A has sent arrives")
			arrive()
			p.Healed()
			if err != nil {
				return err
			}
			in, err := p.besides(ctx, c, released)
			if err != nil {
				return err
			}
			again, err := p.enteredBeside(ctx, next, in, round, "A's release, which was held up,")
			if err != nil || !again {
				return err
			}
		}
	}
}

// hasRenewed has a worker acquire the lock, and returns when it has just been renewed, so that the next time is far. A machine so busy that it is lost before
// that has another chance.
func (p *trial) hasRenewed(ctx context.Context, w *play.Worker) (h *play.Hold, err error) {
	for range rounds {
		if h, err = p.waits(ctx, w, p.limit()); err != nil {
			return nil, err
		}
		if err = h.Renewed(ctx); err == nil || ctx.Err() != nil {
			return h, err
		}
		if failed := h.Release(ctx); failed != nil {
			return nil, failed
		}
	}
	return nil, err
}

// holdUp has a worker release, and the network hold up what it sends from request n on; arrive ends that.
func (p *trial) holdUp(ctx context.Context, h *play.Hold, n int) (released <-chan error, arrive func(), err error) {
	link := h.Worker.Endpoint.Links[0]
	before := link.Requests()
	slow := p.Environment.TTL / 8
	if n == 1 {
		arrive = p.silenced(h.Worker)
		return p.release(ctx, h), arrive, nil
	}
	link.Delay(slow) // so that what is seen on its way can be held up before it arrives
	defer p.cutOff(h.Worker, "slow")()
	released = p.release(ctx, h)
	for begun := time.Now(); link.Requests() < before+int64(n); {
		if time.Since(begun) > 2*p.Environment.TTL {
			return nil, nil, fmt.Errorf("a release had fewer than %d requests", n)
		}
		if err := p.Sleep(ctx, time.Millisecond); err != nil {
			return nil, nil, err
		}
	}
	return released, p.silenced(h.Worker), nil
}

// release has the lock released, in the background.
func (p *trial) release(ctx context.Context, h *play.Hold) <-chan error {
	released := make(chan error, 1)
	go func() { released <- h.Release(ctx) }()
	return released
}

// stopUntilNext stops who has the lock until somebody else has it, who waits for it, and returns that hold and when it was stopped. Nothing, if it could not be had, which
// is then found, and the first one has released it.
func (p *trial) stopUntilNext(ctx context.Context, older *play.Hold, b *play.Worker) (next *play.Hold, stopped history.Instant, err error) {
	p.Injected()
	stopped = history.Now()
	if err := older.Worker.Stop(); err != nil {
		return nil, 0, err
	}
	within := p.limit()
	if p.Environment.Local { // where nothing ends a lock but its process
		within = 3 * p.Environment.TTL
	}
	next, err = p.waits(ctx, b, within)
	if err == nil {
		return next, stopped, nil
	}
	switch took := history.Now().Sub(stopped); {
	case !taken(err):
		return nil, 0, err
	case p.Environment.Local:
		p.found(report.Safe, "A was stopped for %s, and B, which waited, did not get the lock: it is A's as long as its process exists.", text(took))
	default:
		p.found(report.Stuck, "A was stopped for %s, and B, which waited, did not get the lock.", text(took))
	}
	if err := older.Worker.Resume(); err != nil {
		return nil, 0, err
	}
	p.Healed()
	return nil, 0, older.Release(ctx)
}

// entry is how somebody fared who asked for a lock that somebody else has.
type entry struct {
	hold  *play.Hold // nil: it was refused
	tried int
}

// whileReleased has a lock released, and c ask for it.
func (p *trial) whileReleased(ctx context.Context, h *play.Hold, c *play.Worker) (entry, error) {
	return p.besides(ctx, c, p.release(ctx, h))
}

// besides has c ask for a lock that somebody else has, until that of another has been released, and for a while longer.
func (p *trial) besides(ctx context.Context, c *play.Worker, released <-chan error) (entry, error) {
	enough := make(chan struct{})
	failed := make(chan error, 1)
	go func() {
		defer close(enough)
		err := <-released
		failed <- err
		_ = p.Sleep(ctx, p.Environment.TTL/2) // what a client gives back when it is told of a loss, it does in the background
	}()
	h, n, err := p.tries(ctx, c, 10*time.Millisecond, p.limit(), enough)
	if err != nil && !taken(err) {
		return entry{}, err
	}
	return entry{h, n}, <-failed
}

// enteredBeside says what is found if somebody has entered while another one has the lock; both write then. They are to do it all again if the first one
// had been told of its loss already, which is as luck has it.
func (p *trial) enteredBeside(ctx context.Context, next *play.Hold, in entry, round int, why string) (again bool, err error) {
	believed, err := next.Valid(ctx)
	if err != nil {
		return false, err
	}
	if !believed && round < rounds {
		if in.hold != nil {
			err = in.hold.Release(ctx)
		}
		return true, errors.Join(err, next.Release(ctx))
	}
	class := report.Safe // what it means that two believe, the judge says
	if !believed {
		class = report.Misled // whoever released was told that it had released its own
	}
	if in.hold != nil {
		p.found(class, "%s ended the lock of B, and C had it.", why)
		return false, errors.Join(p.Both(ctx, next, in.hold), p.linger(ctx, next))
	}
	if believed {
		p.found(class, "%s ended nothing: B kept the lock, and C, which asked for it %d times, was refused each time.", why, in.tried)
	} else {
		p.found(class, "%s ended the lock of B, which was told of the loss; C asked for it %d times, and was refused each time.", why, in.tried)
	}
	return false, next.Release(ctx)
}
