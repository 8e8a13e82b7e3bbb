package hazards

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

// The scripts of this file harm clients and their network.

// cutInTheMiddle lets claims get as far as their first request, their second, and their third, until one succeeds.
func cutInTheMiddle(p *trial) {
	a, b := p.worker(), p.worker()
	var had []string
	for k := 1; k <= 3; k++ {
		if k > 1 {
			a = p.worker()
		}
		killed := p.cutAfter(a, k)
		if killed == 0 {
			break
		}
		what := fmt.Sprintf("%s was killed in the middle of its claim, after request %d", lane(a.Name), k)
		h, err := p.acquire(b, p.Name(), p.limit())
		if err != nil {
			p.stuck(err, killed, what+",")
			return
		}
		had = append(had, text(p.after(killed, h))+" after "+what)
		p.Healed()
		p.release(h)
	}
	if len(had) == 0 {
		check(errors.New("no claim was cut off"))
	}
	p.found(report.Safe, "B had the lock %s.", strings.Join(had, ", and "))
}

// cutAfter has a worker claim the lock, cuts it off after k requests and kills it, and returns when; 0 if it had the lock before, which it then releases.
func (p *trial) cutAfter(w *play.Worker, k int) history.Instant {
	p.release(p.has(w)) // which does what is done but once
	var cut sync.WaitGroup
	all, one := make(chan struct{}), make(chan struct{}, len(w.Endpoint.Links))
	for _, l := range w.Endpoint.Links {
		severed := l.SeverAfter(k)
		cut.Go(func() {
			select {
			case <-severed:
				one <- struct{}{}
			case <-p.ctx.Done():
			}
		})
	}
	go func() { cut.Wait(); close(all) }()
	claim := p.ask(w, p.limit())
	select {
	case <-claim.over:
	case <-one:
		select {
		case <-all: // five servers are asked at the same time
		case <-time.After(50 * time.Millisecond): // of three, one is asked
		}
	}
	select {
	case <-claim.over:
		if claim.err == nil {
			w.Endpoint.Links.Each((*faultproxy.Proxy).Restore)
			p.release(claim.hold)
			return 0
		}
	default:
	}
	w.Endpoint.Links.Each((*faultproxy.Proxy).Cut)
	p.Injected()
	p.Note("%s has been cut off after request %d of its claim, and is killed", w.Name, k)
	p.cutOff(w, "cut off")
	killed := history.Now()
	check(w.Kill())
	return killed
}

// killedWhileAsking kills processes at about the moment in which they get the lock.
func killedWhileAsking(p *trial) {
	a, b := p.worker(), p.worker()
	var had []string
	for round := range rounds {
		if round > 0 {
			a = p.worker()
		}
		p.ask(a, p.limit())
		p.sleep(time.Duration(round) * 2 * time.Millisecond)
		p.Injected()
		killed := history.Now()
		check(a.Kill())
		h, err := p.acquire(b, p.Name(), p.limit())
		if err != nil {
			p.stuck(err, killed, lane(a.Name)+" was killed while it asked")
			return
		}
		p.Healed()
		had = append(had, text(p.after(killed, h)))
		p.release(h)
	}
	p.found(report.Safe, "%d processes were killed while they asked, or just after; B had the lock %s after that.", len(had), strings.Join(had, ", "))
}

// askedForADeadOnes has a holder die, and another worker ask for its lock again and again.
func askedForADeadOnes(p *trial) {
	a, b := p.worker(), p.worker()
	killed, ttl := p.died(a), p.Environment.TTL
	h, n, err := p.tries(b, ttl/8, p.limit(), nil)
	if err == nil {
		p.Healed()
		p.found(report.Safe, "B had the lock %s after A was killed, at attempt %d.", text(p.after(killed, h)), n)
		p.release(h)
		return
	}
	p.stuck(err, killed, fmt.Sprintf("A was killed, and after %d attempts of B,", n))
	p.sleep(ttl * 3 / 2)
	if h, err = b.TryAcquire(p.ctx, p.Name(), ttl); err == nil {
		p.found(report.Stuck, "When B had left it alone for %s, it could be had: each attempt had prolonged it.", text(ttl*3/2))
		p.release(h)
	}
}

// waitedForADeadOnes has a holder die while another worker waits.
func waitedForADeadOnes(p *trial) {
	a, b := p.worker(), p.worker()
	killed := p.died(a)
	h, err := p.acquire(b, p.Name(), p.limit())
	if err != nil {
		p.stuck(err, killed, "A was killed")
		return
	}
	p.Healed()
	p.found(report.Safe, "B, which waited, had the lock %s after A was killed.", text(p.after(killed, h)))
	p.release(h)
}

// workedLong has A hold for longer than its TTL.
func workedLong(p *trial) {
	wa, wb := p.worker(), p.worker()
	a := p.has(wa)
	waiting, work := p.ask(wb, 2*p.limit()), p.Environment.TTL*5/2
	select {
	case <-waiting.over:
		b := waiting.wait()
		p.found(report.Safe, "A had the lock, whose TTL is %s, for %s when B got it too.", text(p.Environment.TTL), text(p.after(p.event(a, history.Got).At, b)))
		p.both(a, b)
		p.linger(a)
		return
	case <-time.After(work):
	case <-p.ctx.Done():
		check(p.ctx.Err())
	}
	p.write(a)
	released := history.Now()
	p.release(a)
	b := waiting.wait()
	p.found(report.Safe, "A worked for %s, 2.5 times its TTL; B, which waited, had the lock %s after A had begun to release it.", text(work), text(p.after(released, b)))
	p.write(b)
}

// stoppedBeforeItWrites has A stopped between its look at the lock and its write.
func stoppedBeforeItWrites(p *trial) {
	wa, wb := p.worker(), p.worker()
	a := p.holds(wa)
	p.Note("A looks, and %s", map[bool]string{true: "still has the lock", false: "has lost the lock"}[p.valid(a)])
	b, stopped := p.stopUntilNext(a, wb)
	if b == nil {
		return
	}
	p.write(b)
	pause := text(history.Now().Sub(stopped))
	check(wa.Resume())
	p.Healed()
	valid := p.valid(a)
	p.Note("A goes on and writes, and %s", map[bool]string{true: "still believes in its lock", false: "knows that its lock is gone"}[valid])
	p.write(a)
	if valid {
		p.found(report.Fenced, "A was stopped for %s, in which B got the lock; when A went on it still believed in its own, and wrote.", pause)
		p.linger(a)
		return
	}
	p.found(report.Safe, "A was stopped for %s, in which B got the lock; when A went on, its first look said that its own was lost, and then it wrote all the same.", pause)
	p.release(b)
}

// askedTwice has a process ask for the lock that it has.
func askedTwice(p *trial) {
	a := p.worker()
	first, patient := p.has(a), p.Environment.TTL/2
	second, err := a.TryAcquire(p.ctx, p.Name(), patient)
	if refusedFor(err, history.ClassHeld) {
		second, err = a.Acquire(p.ctx, p.Name(), patient)
	}
	if err == nil {
		p.found(report.Safe, "A had the lock, asked again, and had it twice.")
		p.both(first, second)
		return
	}
	if !refusedFor(err, history.ClassTimedOut) {
		check(err)
	}
	p.release(first)
	p.found(report.Safe, "A's second attempt was refused at once, since somebody has the lock, and one that waited was given up in vain after %s.", text(patient))
	again := p.has(a)
	p.found(report.Safe, "When A had released it, once, it could be had again.")
	p.release(again)
}

// slowAnswers has A get the lock by answers that come late, and then none at all, while B asks for the lock. They come so late that a holder which counts from the
// answer still believes in a lock that has ended.
func slowAnswers(p *trial) {
	by := 300 * time.Millisecond
	if p.Environment.Backend == "zookeeper" { // a claim has four requests, one after the other
		by = 100 * time.Millisecond
	}
	p.validity(func(a *play.Worker) {
		p.Note("what A sends and is sent comes %s late", text(by))
		a.Endpoint.Links.Each(func(l *faultproxy.Proxy) { l.Delay(by) })
	})
}

// minorityHangs does the same where two of five nodes do not answer.
func minorityHangs(p *trial) {
	p.validity(func(a *play.Worker) {
		p.Note("two of the five servers do not answer A")
		a.Endpoint.Links[3:].Each((*faultproxy.Proxy).Freeze)
	})
}

// validity looks whether the first holder's belief has ended when the second one has the lock.
func (p *trial) validity(slow func(*play.Worker)) {
	wa, wb := p.worker(), p.worker()
	p.warmUp(wa)
	p.Injected()
	slow(wa)
	a := must(wa.Acquire(p.ctx, p.Name(), lasting))
	p.Note("A has the lock, and its network falls silent")
	defer p.silence(wa)()
	b := p.has(wb)
	p.told(a, lasting)
	p.Healed()
	asked, had := p.event(a, history.Asked).At, p.event(a, history.Got).At
	p.found(report.Safe, "It took A %s to get the lock, and A believed in it for %s more; the TTL is %s.", text(had.Sub(asked)), text(a.Deadline.Sub(had)), text(p.Environment.TTL))
	if gap := p.after(a.Deadline, b); gap > 0 {
		p.found(report.Safe, "B had the lock %s after A's belief had ended.", text(gap))
	}
}

// lastAnswer has A wait for a node that does not answer, while B, to which all nodes answer, asks for the lock too.
func lastAnswer(p *trial) {
	p.patient(3 * time.Second) // of which a quarter, in which the first renewal comes, is enough for a waiter to see that the lock is free
	wa, wb := p.worker(), p.worker()
	p.Injected()
	p.Note("one of the five servers does not answer A")
	defer p.cutOff(wa, "one of the five does not answer")()
	last := wa.Endpoint.Links[len(wa.Endpoint.Links)-1]
	last.Freeze()
	defer last.DropHeld()
	slow := p.ask(wa, lasting)
	p.sleep(p.Environment.TTL / 4)
	b := p.has(wb)
	a := slow.wait()
	asked := p.event(a, history.Asked).At
	p.found(report.Safe, "It took A %s to get the lock, which the servers keep for %s; they gave it to B %s after A had asked.",
		text(p.after(asked, a)), text(p.Environment.TTL), text(p.after(asked, b)))
	p.bothWrite(a, b)
}

// waitersCounted counts the requests of three processes that wait for a lock.
func waitersCounted(p *trial) {
	const waiting, watched, many = 3, 3 * time.Second, 10 // many requests a second of each make work of waiting
	p.patient(10 * time.Second)                           // as services have: sessions and leases are renewed several times in it
	all := []*play.Worker{p.worker(), p.worker(), p.worker(), p.worker()}
	p.warmUp(all...)
	a := p.has(all[0])
	got := make(chan error, waiting)
	for _, w := range all[1:] {
		go func() {
			h, err := w.Acquire(p.ctx, p.Name(), lasting)
			if err == nil {
				err = h.Release(p.ctx)
			}
			got <- err
		}()
	}
	requests := func() (sum int64) {
		for _, w := range all[1:] {
			sum += w.Endpoint.Links.Requests()
		}
		return sum
	}
	p.sleep(time.Second / 2) // until all have begun to wait
	p.Note("the requests of those who wait are counted from here on")
	begun, before := history.Now(), requests()
	p.sleep(watched)
	n, took := requests()-before, history.Now().Sub(begun)
	p.Note("they have been counted, and A releases")
	p.release(a)
	for range waiting {
		check(<-got)
	}
	class, each := report.Safe, float64(n)/took.Seconds()/waiting
	if each > many {
		class = report.Costly
	}
	p.found(class, "Each of the three processes that waited sent %.1f requests a second (%d in %s by all of them).", each, n, text(took))
}

// silence has the network of a worker fall silent until end is called; what was on its way is lost.
func (p *trial) silence(w *play.Worker) (end func()) {
	return p.apart("silent", (*faultproxy.Proxy).Freeze, w)
}

// apart does something to all links of workers, until back is called. What it is, the timeline says.
func (p *trial) apart(what string, how func(*faultproxy.Proxy), all ...*play.Worker) (back func()) {
	var mended []func()
	for _, w := range all {
		mended = append(mended, p.cutOff(w, what))
		w.Endpoint.Links.Each(how)
	}
	return func() {
		for i, w := range all {
			w.Endpoint.Links.Each((*faultproxy.Proxy).DropHeld)
			mended[i]()
		}
	}
}
