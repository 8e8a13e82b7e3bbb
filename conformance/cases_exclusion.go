package conformance

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport/driver"
)

const ruleExclusion = "P1 exclusion: between the grant of a name and its release or loss nobody else holds it"

// exclusionCases test P1.
var exclusionCases = group("exclusion",
	quick("two-claims", ruleExclusion, func(e *Env) {
		p, _, name, lease := e.held()
		p.wantHeld(name, "this client has the name") // in many systems a session could lock again
		p.wantHeld(name, "this client has the name")
		p.release(lease)
		p.wantFree(name, "the name was claimed once and released once")
	}),
	quick("two-backends", ruleExclusion, func(e *Env) {
		a, b, name, lease := e.held()
		for range 5 {
			b.wantHeld(name, "another client has the name")
		}
		a.release(lease)
		next := b.claim(name)
		a.wantHeld(name, "another client has the name")
		b.release(next)
	}),
	full("a-claim-that-failed", "P1 exclusion: a claim that returns ErrHeld neither extends nor shortens the holder's claim", func(e *Env) {
		e.needsTTL()
		_, b, name, lease := e.held()
		until := lease.Grant().Until
		req := b.request(name)
		for {
			asked := time.Now()
			next, err := b.try(req)
			if err == nil {
				e.require(!time.Now().Before(until), "another claim was granted %v before the holder's validity ended", time.Until(until))
				b.release(next)
				return
			}
			e.is(err, "a claim on a held name was not ErrHeld but", driver.ErrHeld)
			e.require(asked.Sub(until) <= e.takeover()-e.ttl,
				"the claim expired %v ago, but its name is still taken: nobody but the failed claims can have extended it", asked.Sub(until))
			e.sleep(10 * time.Millisecond)
		}
	}),
	quick("many-at-once", "P1 exclusion: of many concurrent claims by several clients, exactly one is granted", sole.atOnce),
	quick("goroutines", ruleExclusion+" (goroutines of one client)",
		contend(1, 8, crowd{Rounds: 25}, (*race).clients)),
	full("clients", "P1 exclusion, P7 liveness: every waiter in a crowd gets the name, and it never has two holders (six clients, two goroutines each)",
		contend(6, 2, crowd{Rounds: 10, Hold: 200 * time.Microsecond}, (*race).clients)).within(time.Minute),
	full("clients-without-hand-off", ruleExclusion+" (no hand-off: the server grants every hold)",
		contend(3, 2, crowd{Rounds: 15, NoHandOff: true}, (*race).clients)),
	full("processes", ruleExclusion+" (three processes)",
		contend(3, 1, crowd{Rounds: 40, Hold: 200 * time.Microsecond}, (*race).processes), "processes").within(time.Minute),
	full("crowd", ruleCrowd, func(e *Env) {
		o := SoakOptions{For: 1500 * time.Millisecond, Processes: 3, Goroutines: 24, Patience: 20 * time.Second}
		e.crowds(o, e.atLeast(crowdTTL), new(SoakReport))
	}).alone().within(90*time.Second),
)

// atOnce makes 12 concurrent claims of a name by three clients, ten times. Every fourth beside readers is a writer's. At least
// j.least places must be taken, and never more than there are.
func (j joint) atOnce(e *Env) {
	parties := []*party{e.party(), e.party(), e.party()}
	for range 10 {
		name := e.name()
		var granted, taken, unknown atomic.Int64
		e.storm(12, func(ctx context.Context, i int) error {
			m, takes := j.mode, int64(1)
			if m == (mode{}) || m.shared && i%4 == 0 {
				m, takes = mode{}, j.places
			}
			p := parties[i%len(parties)].in(m)
			req := p.request(name)
			_, err := p.tryIn(ctx, req)
			switch class(err) {
			case nil:
				granted.Add(1)
				taken.Add(takes)
			case driver.ErrUnknown: // it may be granted; happens on a busy machine
				p.abandon(req)
				unknown.Add(1)
			case driver.ErrHeld:
			default:
				return fmt.Errorf("a claim must be granted or return ErrHeld; it returned: %w", err)
			}
			return nil
		})
		n := taken.Load()
		e.require(n <= j.places, "of 12 claims at once %d were granted, which take %d of only %d places: %w", granted.Load(), n, j.places, errGranted)
		e.require(n+unknown.Load() >= j.least, "of 12 claims at once %d were granted, which take %d of %d places; %d are unknown",
			granted.Load(), n, j.places, unknown.Load())
	}
}

const ruleFencing = "P2 fencing: tokens of a name rise strictly in the order of its grants"

// fencingCases test P2 of the driver. Cases of contention, silence, loss and crashes check tokens too.
var fencingCases = stated("fencing", func(c driver.Capabilities) bool { return c.Token != driver.TokenNone }, "Capabilities.Token",
	quick("holders", ruleFencing+", abandoned ones included, also by backends opened later", func(e *Env) {
		a, b, name := e.two()
		last := uint64(0)
		for range 5 {
			later := e.party()
			for _, p := range []*party{a, b, b, later} {
				last = e.rises(last, p.wantFree(name, "the name was released"))
			}
			e.check(later.Close(), "Close")
			req := a.request(name)
			last = e.rises(last, a.claimAs(req).Grant().Token)
			a.abandon(req)
			last = e.rises(last, b.wantFree(name, "the claim was abandoned"))
		}
	}),
	full("idle", ruleFencing+", also after a pause of five TTLs, at most 10 s", func(e *Env) {
		a, b, name := e.two()
		last := a.wantFree(name, "the name is new")
		e.sleep(min(5*e.ttl, 10*time.Second))
		e.rises(last, b.wantFree(name, "the name was released"))
	}),
	full("restart", ruleFencing+", across a restart of the server with its data",
		func(e *Env) { risesAcrossRestart(e, true) }, "Restart"),
	full("restart-without-data", ruleFencing+", across a restart of the server without its data, where Capabilities.Token is TokenFailover",
		func(e *Env) {
			e.applies(e.caps.Token >= driver.TokenFailover, "tokens rise only %v", e.caps.Token)
			risesAcrossRestart(e, false)
		}, "Restart"),
)

// risesAcrossRestart compares the tokens of a name before and after a restart.
func risesAcrossRestart(e *Env, keepData bool) {
	p, name, last := e.party(), e.name(), uint64(0)
	for range 5 {
		last = e.rises(last, p.wantFree(name, "the name was released"))
	}
	e.restart(keepData)
	e.rises(last, p.take(name, e.takeover()+callTime, "the server is back").Grant().Token)
}
