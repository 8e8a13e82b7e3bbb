package hazards

import (
	"fmt"
	"time"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

// The scripts of this file have a lock released late.

// releasedLate has A stopped until B has its lock, and then release.
func releasedLate(p *trial) {
	a, b, c := p.workers()
	for again, round := true, 1; again; round++ {
		older := p.holds(a)
		next, stopped := p.stopUntilNext(older, b)
		if next == nil {
			return
		}
		check(next.Renewed(p.ctx)) // from here to the next renewal is longest
		p.Note("A goes on, after %s, and releases", text(history.Now().Sub(stopped)))
		check(a.Resume())
		p.Healed()
		again = p.enters(c, next, p.releases(older), round, "A's late release")
	}
}

// releaseHeldUp has A release, holds up what it sends from request n on until B has the lock, and then lets it arrive.
func releaseHeldUp(n int) script {
	return func(p *trial) {
		a, b, c := p.workers()
		for again, round := true, 1; again; round++ {
			older := p.hasRenewed(a)
			p.Injected()
			released, arrive := p.holdUp(older, n)
			next, err := p.acquire(b, p.Name(), p.limit())
			if err == nil {
				err = next.Renewed(p.ctx)
			}
			p.Note("what A has sent arrives")
			arrive()
			p.Healed()
			check(err)
			again = p.enters(c, next, released, round, "A's release, which was held up,")
		}
	}
}

// hasRenewed has a worker acquire the lock, and returns when it has just been renewed, so that the next renewal is far away.
func (p *trial) hasRenewed(w *play.Worker) *play.Hold {
	for round := 1; ; round++ {
		h := p.has(w)
		err := h.Renewed(p.ctx)
		if err == nil {
			return h
		}
		if round == rounds || p.ctx.Err() != nil {
			check(err)
		}
		p.release(h) // a busy machine has another chance
	}
}

// holdUp has a worker release, and the network hold up what it sends from request n on; arrive ends that.
func (p *trial) holdUp(h *play.Hold, n int) (released <-chan error, arrive func()) {
	link := h.Worker.Endpoint.Links[0]
	if n > 1 { // what is seen on its way is held up before it arrives
		before := link.Requests()
		link.Delay(p.Environment.TTL / 8)
		defer p.cutOff(h.Worker, "slow")()
		released = p.releases(h)
		for begun := time.Now(); link.Requests() < before+int64(n); p.sleep(time.Millisecond) {
			if time.Since(begun) > 2*p.Environment.TTL {
				check(fmt.Errorf("a release had fewer than %d requests", n))
			}
		}
	}
	over := p.cutOff(h.Worker, "silent")
	h.Worker.Endpoint.Links.Each((*faultproxy.Proxy).Freeze)
	if n == 1 {
		released = p.releases(h)
	}
	return released, func() {
		over()
		h.Worker.Endpoint.Links.Each((*faultproxy.Proxy).Restore)
	}
}

// releases has the lock released in the background.
func (p *trial) releases(h *play.Hold) <-chan error {
	released := make(chan error, 1)
	go func() { released <- h.Release(p.ctx) }()
	return released
}

// stopUntilNext stops the holder until B, which waits, has the lock, and returns that hold and when the holder was stopped. If B does not get it, that is found,
// and the first holder goes on and releases.
func (p *trial) stopUntilNext(older *play.Hold, b *play.Worker) (next *play.Hold, stopped history.Instant) {
	p.Injected()
	stopped = history.Now()
	check(older.Worker.Stop())
	within := p.limit()
	if p.Environment.Local { // where nothing but the end of its process ends a lock
		within = 3 * p.Environment.TTL
	}
	next, err := p.acquire(b, p.Name(), within)
	if err == nil {
		return next, stopped
	}
	if !taken(err) {
		check(err)
	}
	class, why := report.Stuck, "."
	if p.Environment.Local {
		class, why = report.Safe, ": it is A's as long as its process exists."
	}
	p.found(class, "A was stopped for %s, and B, which waited, did not get the lock%s", text(history.Now().Sub(stopped)), why)
	check(older.Worker.Resume())
	p.Healed()
	p.release(older)
	return nil, 0
}

// enters has C ask for the lock of next until another one's release has returned, and for a while longer, and says what is found if C gets it. They do it all again
// if next had been told of its loss before, which is a matter of luck.
func (p *trial) enters(c *play.Worker, next *play.Hold, released <-chan error, round int, why string) (again bool) {
	enough, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(enough)
		failed <- <-released
		_ = p.Sleep(p.ctx, p.Environment.TTL/2) // a client that is told of a loss gives back in the background
	}()
	h, n, err := p.tries(c, 10*time.Millisecond, p.limit(), enough)
	if err != nil && !taken(err) {
		check(err)
	}
	check(<-failed)
	believed := p.valid(next)
	if !believed && round < rounds {
		if h != nil {
			p.release(h)
		}
		p.release(next)
		return true
	}
	class, ended := report.Safe, "ended nothing: B kept the lock" // what it means that two believe, the judge says
	if !believed {
		class, ended = report.Misled, "ended the lock of B, which was told of the loss" // A was told that it had released its own
	}
	if h != nil {
		p.found(class, "%s ended the lock of B, and C had it.", why)
		p.both(next, h)
		p.linger(next)
		return false
	}
	p.found(class, "%s %s. C asked for it %d times, and was refused each time.", why, ended, n)
	p.release(next)
	return false
}
