package hazards

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

// The scripts of this file have a holder work for too long, release too late, or ask again.

// worksLong has A hold for longer than its TTL.
func worksLong(p *trial) {
	wa, wb := p.Worker(), p.Worker()
	a := p.has(wa)
	waiting, work := p.Asks(wb, lasting), p.TTL*5/2
	if p.Until(work, waiting.Ended) {
		b := waiting.Got()
		p.found(report.Safe, "A had the lock, whose TTL is %s, for %s when B got it too.", text(p.TTL), text(p.after(a.Event(history.Got).At, b)))
		p.bothWrite(a, b)
		return
	}
	a.Update()
	released := history.Now()
	a.Release()
	b := waiting.Got()
	p.found(report.Safe, "A worked for %s, 2.5 times its TTL; B, which waited, had the lock %s after A had begun to release it.", text(work), text(p.after(released, b)))
	b.Update()
}

// stop stops A, and returns the hold of B, which waits for the lock; nil if it waits in vain. What meanwhile does happens behind A's back.
func (p *trial) stop(a, b *play.Worker, meanwhile ...removal) *play.Hold {
	p.Injected()
	stopped := history.Now()
	a.Stop()
	for _, remove := range meanwhile {
		remove(p, p.Name())
	}
	return p.next(b, stopped, "A was stopped")
}

// stoppedBeforeItWrites is behindTheBack of a new worker.
func stoppedBeforeItWrites(meanwhile ...removal) script {
	return func(p *trial) { p.behindTheBack(p.Worker(), meanwhile...) }
}

// behindTheBack stops A in the middle of its work, until B has the lock and writes. Then A goes on, and writes before it looks at its lock.
func (p *trial) behindTheBack(wa *play.Worker, meanwhile ...removal) {
	wb, a := p.Worker(), p.holds(wa)
	b := p.stop(wa, wb, meanwhile...)
	if b == nil {
		return
	}
	b.Update()
	p.Wait(believed)
	resumed := history.Now()
	wa.Resume()
	p.Note("A goes on, and writes")
	a.Update()
	class, said := p.toldSince(a, resumed)
	p.Healed()
	p.found(class, "When A went on it wrote before it looked at its lock, and then %s.", said)
}

// stoppedBeforeItReleases stops A until B has its lock. Then A releases.
func stoppedBeforeItReleases(p *trial) {
	a, b, c := p.Worker(), p.Worker(), p.Worker()
	older := p.holds(a)
	next := p.stop(a, b)
	if next == nil {
		return
	}
	next.Renewed(p.Length()) // from here to the next renewal is longest
	p.Note("A goes on, and releases")
	a.Resume()
	p.Healed()
	p.enters(c, next, p.Releases(older), "A's late release")
}

// releaseHeldUp has A release. The network holds up what A sends from request n on until B has the lock, and then lets it arrive.
func releaseHeldUp(n int64) script {
	return func(p *trial) {
		a, b, c := p.Worker(), p.Worker(), p.Worker()
		older := p.has(a)
		older.Renewed(p.Length()) // so that the next renewal is far away
		p.Injected()
		var released *play.Task
		links := a.Endpoint.Links
		if n > 1 { // what is seen on its way is held up before it arrives
			before := links[0].Requests()
			slow := p.Apart(a, "slow", links, func(l *faultproxy.Proxy) { l.Delay(p.TTL / 8) })
			released = p.Releases(older)
			if !p.Until(2*p.TTL, func() bool { return links[0].Requests() >= before+n }) {
				play.Check(fmt.Errorf("a release had fewer than %d requests", n))
			}
			slow(freeze)
		}
		arrive := p.Apart(a, "silent", links, freeze)
		if n == 1 {
			released = p.Releases(older)
		}
		next := p.next(b, history.Now(), "A's release was held up")
		if next == nil {
			return
		}
		next.Renewed(p.Length())
		p.Note("what A has sent arrives")
		arrive(restore)
		p.Healed()
		p.enters(c, next, released, "A's release, which was held up,")
	}
}

// enters has C ask for the lock of next until another release has returned, and for a while longer, and says what came of it.
func (p *trial) enters(c *play.Worker, next *play.Hold, released *play.Task, why string) {
	trying := p.Tries(c, 10*time.Millisecond)
	<-released.Over
	play.Check(released.Err)
	p.Until(p.TTL/2, trying.Ended) // a client that is told of a loss releases in the background
	h, valid := trying.Stop(), next.Valid()
	switch {
	case h != nil:
		p.found(report.Safe, "%s ended the lock of B, and C had it.", why) // what that means, the judge says
		p.bothWrite(next, h)
	case !valid:
		play.Check(errors.New("client B lost its lock by itself"))
	default:
		p.found(report.Safe, "%s ended nothing: B kept the lock. C asked for it %d times, and was refused each time.", why, trying.Tries)
	}
}

// asksTwice has a process ask for the lock that it has.
func asksTwice(p *trial) {
	a := p.Worker()
	first, patient := p.has(a), p.TTL/2
	second, err := a.TryAcquire(p.Name(), patient)
	if refusedFor(err, history.ClassHeld) {
		second, err = a.Acquire(p.Name(), patient)
	}
	if err == nil {
		p.found(report.Safe, "A had the lock, asked again, and had it twice.")
		p.bothWrite(first, second)
		return
	}
	if !refusedFor(err, history.ClassTimedOut) {
		play.Check(err)
	}
	first.Release()
	p.found(report.Safe, "A's second attempt was refused at once, since somebody has the lock, and one that waited was given up in vain after %s.", text(patient))
	p.has(a)
	p.found(report.Safe, "When A had released it, once, it could be had again.")
}
