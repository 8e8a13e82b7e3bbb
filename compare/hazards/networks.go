package hazards

import (
	"errors"
	"time"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

// The scripts of this file have a slow network, a busy one, or none.

// slowAnswers has A get the lock by answers that come late, or that some servers do not give, and then no answers at all, while B asks for the lock. A holder that
// counts from the answer would still believe in a lock that has ended.
func slowAnswers(note string, slow func(links faultproxy.Group)) script {
	return func(p *trial) {
		wa, wb := p.Worker(), p.Worker()
		p.warmUp(wa)
		p.Injected()
		p.Note("%s", note)
		slow(wa.Endpoint.Links)
		a := play.Must(wa.Acquire(p.Name(), lasting))
		p.Note("A has the lock, and its network falls silent")
		defer p.Apart(wa, "silent", wa.Endpoint.Links, freeze)(drop)
		b := p.has(wb)
		p.disbelieves(a, lasting)
		p.Healed()
		asked, had := a.Event(history.Asked).At, a.Event(history.Got).At
		p.found(report.Safe, "It took A %s to get the lock, and A believed in it for %s more; the TTL is %s.", text(had.Sub(asked)), text(a.Deadline.Sub(had)), text(p.TTL))
		if gap := p.after(a.Deadline, b); gap > 0 {
			p.found(report.Safe, "B had the lock %s after A's belief had ended.", text(gap))
		}
	}
}

// late delays what is sent, and hung makes two of five servers not answer.
func late(by time.Duration) func(faultproxy.Group) {
	return func(links faultproxy.Group) { links.Each(func(l *faultproxy.Proxy) { l.Delay(by) }) }
}

func hung(links faultproxy.Group) { links[3:].Each(freeze) }

// lastAnswer has A wait for a server that does not answer, while B, to which all servers answer, asks for the lock too.
func lastAnswer(p *trial) {
	wa, wb := p.Worker(), p.Worker()
	p.Injected()
	p.Note("one of the five servers does not answer A")
	defer p.Apart(wa, "one of the five does not answer", wa.Endpoint.Links[4:], freeze)(drop)
	slow := p.Asks(wa, lasting)
	p.Wait(p.TTL / 4)
	b := p.has(wb)
	a := slow.Got()
	asked := a.Event(history.Asked).At
	p.found(report.Safe, "It took A %s to get the lock, which the servers keep for %s; they gave it to B %s after A had asked.",
		text(p.after(asked, a)), text(p.TTL), text(p.after(asked, b)))
	p.bothWrite(a, b)
}

// waitersCounted counts the requests of three processes that wait for a lock.
func waitersCounted(p *trial) {
	const watched, many = 3 * time.Second, 10 // so many requests a second of each make work of waiting
	holder := p.Worker()
	waiters := []*play.Worker{p.Worker(), p.Worker(), p.Worker()}
	p.warmUp(waiters...)
	a := p.has(holder)
	var links faultproxy.Group
	for _, w := range waiters {
		p.Asks(w, lasting)
		links = append(links, w.Endpoint.Links...)
	}
	p.Wait(time.Second / 2) // until all have begun to wait
	p.Note("the requests of those who wait are counted from here on")
	begun, before := history.Now(), links.Requests()
	p.Wait(watched)
	n, took := links.Requests()-before, history.Now().Sub(begun)
	p.Note("they have been counted, and A releases")
	a.Release()
	class, each := report.Safe, float64(n)/took.Seconds()/3
	if each > many {
		class = report.Costly
	}
	p.found(class, "Each of the three processes that waited sent %.1f requests a second (%d in %s by all of them).", each, n, text(took))
}

// absence makes the servers unreachable for workers until back is called.
type absence = func(p *trial, a, b *play.Worker) (back func())

// unreachable harms all links of A and B.
func unreachable(note, what string, harm func(*faultproxy.Proxy)) absence {
	return func(p *trial, a, b *play.Worker) func() {
		p.Note("the network of A and B %s", note)
		first, second := p.Apart(a, what, a.Endpoint.Links, harm), p.Apart(b, what, b.Endpoint.Links, harm)
		return func() { first(drop); second(drop) }
	}
}

var silently, openly = unreachable("falls silent", "silent", freeze), unreachable("is cut", "cut", sever)

func folderAway(p *trial, _, _ *play.Worker) (back func()) {
	p.Note("the folder is moved away")
	folder := p.Environment.Servers.(*environment.Folder)
	away := play.Must(folder.MoveAway())
	return func() { play.Check(folder.MoveBack(away)) }
}

// away has A release a lock, and B ask for another lock, while the server is away for both. C asks for A's lock when it is back.
func away(gone absence) script {
	const (
		askedFor = time.Second      // B's time limit
		slow     = 4 * time.Second  // if B takes so much longer, it hung
		hung     = 12 * time.Second // if Release takes so long, it hung; lockport's returns within 5 s
	)
	return func(p *trial) {
		wa, wb, wc := p.Worker(), p.Worker(), p.Worker()
		p.warmUp(wa, wb, wc)
		a := p.holds(wa)
		p.Injected()
		back := gone(p, wa, wb)
		released, begun := p.Releases(a), time.Now()
		_, err := wb.TryAcquire(p.Name()+"-other", askedFor)
		refusal := new(play.AcquireError)
		if !errors.As(err, &refusal) {
			play.Check(errors.Join(err, errors.New("client B was not refused a lock while the server was away")))
		}
		switch took := time.Since(begun); {
		case refusal.Class == history.ClassHeld:
			p.found(report.Misled, "B was told that somebody else had a lock that nobody had (after %s).", text(took))
		case took > askedFor+slow:
			p.found(report.Stuck, "B hung: its attempt, with a limit of %s, returned after %s.", text(askedFor), text(took))
		default:
			p.found(report.Unavailable, "B's attempt, with a limit of %s, returned after %s with an error: %s.", text(askedFor), text(took), said(refusal.Class))
		}
		returned := p.Until(hung, released.Ended)
		back()
		p.Healed()
		p.Note("the fault is over")
		if !returned {
			p.found(report.Stuck, "A's Release had not returned after %s.", text(hung))
			return
		}
		play.Check(released.Err)
		p.afterRelease(a, wc)
	}
}

// afterRelease says what A's Release, which has returned, was told, and whether C then gets the lock.
func (p *trial) afterRelease(a *play.Hold, c *play.Worker) {
	ended := a.Event(history.Released)
	took, back := text(ended.At.Sub(a.Event(history.Releasing).At)), history.Now()
	if ended.Err != "" {
		p.found(report.Unavailable, "A's Release returned after %s with an error: %s.", took, said(ended.Class))
		p.next(c, back, "the server was back")
		return
	}
	switch _, err := c.TryAcquire(p.Name(), lasting); {
	case err == nil:
		p.found(report.Safe, "A's Release returned after %s without an error, and when the server was back C had A's lock at once.", took)
	case refusedFor(err, history.ClassHeld):
		p.found(report.Misled, "A's Release returned after %s without an error, and when the server was back the lock was still taken: C was refused.", took)
	default:
		play.Check(err)
	}
}

// said is what an error tells a caller.
func said(c history.Class) string {
	known := map[history.Class]string{
		history.ClassUnavailable: "the server cannot be reached", history.ClassRefused: "the server does not allow it", history.ClassTimedOut: "no answer in time",
		history.ClassLost: "the lock is lost", history.ClassHeld: "somebody else has it",
	}
	if text, ok := known[c]; ok {
		return text
	}
	return string(c)
}
