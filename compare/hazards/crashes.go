package hazards

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

// The scripts of this file kill clients.

// dies has A acquire the lock and be killed, and returns when that was.
func (p *trial) dies(a *play.Worker) history.Instant {
	p.holds(a)
	p.Injected()
	p.Note("A is killed")
	killed := history.Now()
	a.Kill()
	return killed
}

// holderKilled kills a holder, and has another worker wait.
func holderKilled(p *trial) {
	a, b := p.Worker(), p.Worker()
	p.next(b, p.dies(a), "A was killed")
}

// holderKilledWhileOthersTry kills a holder, and has another worker ask for its lock again and again.
func holderKilledWhileOthersTry(p *trial) {
	a, b := p.Worker(), p.Worker()
	killed, ttl := p.dies(a), p.TTL
	trying := p.Tries(b, ttl/8)
	p.Until(p.limit(), trying.Ended)
	if h := trying.Stop(); h != nil {
		p.found(report.Safe, "B had the lock %s after A was killed, at attempt %d.", text(p.after(killed, h)), trying.Tries)
		return
	}
	p.inVain(trying.Err, b, killed, fmt.Sprintf("A was killed and B tried %d times", trying.Tries))
	p.Wait(ttl * 3 / 2)
	if _, err := b.TryAcquire(p.Name(), ttl); err == nil {
		p.found(report.Stuck, "When B had left it alone for %s, it could be had: each attempt had prolonged it.", text(ttl*3/2))
	}
}

// claimantsKilled kills workers in the middle of their claims: the k-th at the moment for which at waits, which returns what moment that is. None if the claim has succeeded.
func claimantsKilled(at func(p *trial, w *play.Worker, k int) string) script {
	return func(p *trial) {
		a, b := p.Worker(), p.Worker()
		for k := 1; k <= 3; k++ {
			if k > 1 {
				a = p.Worker()
			}
			moment := at(p, a, k)
			if moment == "" {
				break
			}
			p.Injected()
			p.Note("%s is killed %s", a.Name, moment)
			killed := history.Now()
			a.Kill()
			h := p.next(b, killed, lane(a.Name)+" was killed "+moment)
			if h == nil {
				return
			}
			p.Healed()
			h.Release()
		}
		if len(p.observed) == 0 {
			play.Check(errors.New("no claim was interrupted"))
		}
	}
}

// afterRequest cuts a worker off after request k of its claim.
func afterRequest(p *trial, w *play.Worker, k int) string {
	p.warmUp(w)
	var severed []<-chan struct{}
	for _, l := range w.Endpoint.Links {
		severed = append(severed, l.SeverAfter(k))
	}
	claim := p.Asks(w, lasting)
	p.Until(p.limit(), func() bool { return claim.Ended() || slices.ContainsFunc(severed, play.Closed) })
	p.Until(50*time.Millisecond, claim.Ended) // the other servers are asked at the same time, or not at all
	if claim.Ended() && claim.Err == nil {
		w.Endpoint.Links.Each(restore)
		claim.Hold.Release()
		return ""
	}
	p.Apart(w, "cut off", w.Endpoint.Links, sever)
	return fmt.Sprintf("in the middle of its claim, after request %d", k)
}

// whileAsking waits until a worker asks for the lock, or has just got it.
func whileAsking(p *trial, w *play.Worker, k int) string {
	p.Asks(w, lasting)
	p.Wait(time.Duration(k-1) * 2 * time.Millisecond)
	return "while it asked, or just after"
}
