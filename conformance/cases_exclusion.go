package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

const ruleExclusion = "P1 exclusion: between the grant of a name and its release or loss nobody else holds it"

// exclusionCases are about P1.
var exclusionCases = group("exclusion",
	quick("two-claims", ruleExclusion, func(e *Env) {
		p := e.party()
		name := e.name()
		lease := p.claim(name)
		p.finds(name, "this client has the name") // sessions of many systems would let it in again
		p.finds(name, "this client has the name")
		p.release(lease)
		p.free(name, "the name was released once, and was claimed once")
	}),
	quick("two-backends", ruleExclusion, func(e *Env) {
		a, b := e.party(), e.party()
		name := e.name()
		lease := a.claim(name)
		for range 5 {
			b.finds(name, "another client has the name")
		}
		a.release(lease)
		next := b.claim(name)
		a.finds(name, "another client has the name")
		b.release(next)
	}),
	full("a-claim-that-failed", "P1 exclusion: a claim that finds the name held does not prolong the holder's, nor shorten it", failedClaim),
	quick("many-at-once", "P1 exclusion: of many claims sent at once, by several clients, exactly one is granted", func(e *Env) {
		parties := []*party{e.party(), e.party(), e.party()}
		for range 10 {
			name := e.name()
			var granted, unknown atomic.Int64
			e.storm(12, 1, func(ctx context.Context, i int) error {
				p := parties[i%len(parties)]
				req := p.request(name)
				_, err := p.TryAcquire(ctx, req)
				switch {
				case err == nil:
					p.remember(req)
					granted.Add(1)
				case errors.Is(err, driver.ErrUnknown): // a busy machine: it may be the one
					p.abandon(req)
					unknown.Add(1)
				case !errors.Is(err, driver.ErrHeld):
					return fmt.Errorf("a claim was neither granted nor ErrHeld: %w", err)
				}
				return nil
			})
			if n := granted.Load(); n > 1 || n == 0 && unknown.Load() == 0 {
				e.failf("of 12 claims at once %d were granted", n)
			}
		}
	}),
	quick("goroutines", ruleExclusion+" (goroutines of one client)", func(e *Env) { contend(e, 1, 8, 25, 0) }),
	full("clients", ruleExclusion+" (three clients with four goroutines each)", func(e *Env) { contend(e, 3, 4, 20, 200*time.Microsecond) }),
	full("clients-without-hand-off", ruleExclusion+" (every hold goes back to the server)", func(e *Env) { contend(e, 3, 2, 15, 0, lockport.WithoutHandOff()) }),
	full("processes", ruleExclusion+" (three processes)", contendingProcesses).needing(NeedProcesses).within(time.Minute),
	full("crowd", ruleCrowd, func(e *Env) {
		ttl := e.ttl
		if e.caps.FixedTTL == 0 {
			ttl = roundUp(max(ttl, crowdTTL), e.caps.TTLGrain)
		}
		e.crowds(SoakOptions{For: 1500 * time.Millisecond, Processes: 3, Goroutines: 24, Patience: 20 * time.Second}, ttl, new(SoakReport))
	}).alone().within(90*time.Second),
)

// failedClaim holds a name, unrenewed, while another claims it again and again.
func failedClaim(e *Env) {
	a, b := e.party(), e.party()
	name := e.name()
	lease := a.claim(name)
	until := lease.Grant().Until
	if e.caps.Ends != driver.EndsTTL {
		e.notRun("claims end with their %v, not with a TTL", e.caps.Ends)
	}
	req := b.request(name)
	for {
		asked := time.Now()
		next, err := b.try(req)
		switch now := time.Now(); {
		case err == nil && now.Before(until):
			e.failf("another claim was granted %v before the holder's validity ended", until.Sub(now))
		case err == nil:
			b.release(next)
			return
		case !errors.Is(err, driver.ErrHeld):
			e.failf("a claim returned: %w", err)
		case asked.Sub(until) > e.takeover()-e.ttl:
			e.failf("%v after its end the name is still taken, by nobody but the failed claims", asked.Sub(until))
		}
		e.sleep(10 * time.Millisecond)
	}
}

// contend has goroutines of several clients acquire one name, and looks whether two ever have it. Each holds it for up to so
// long.
func contend(e *Env, clients, goroutines, rounds int, hold time.Duration, opts ...lockport.Option) {
	var all []*lockport.Client
	for range clients {
		all = append(all, e.client(opts...))
	}
	name := e.name()
	var b beliefs
	e.storm(clients*goroutines, rounds, func(ctx context.Context, i int) error {
		lock, err := all[i%clients].Acquire(ctx, name)
		if err != nil {
			return fmt.Errorf("an acquisition failed: %w", err)
		}
		return b.hold(ctx, lock, hold)
	})
	if want := clients * goroutines * rounds; b.holds != want {
		e.failf("%d holds were counted, %d took place", b.holds, want)
	}
}

// contendingProcesses has workers enter their holds into a register that they share.
func contendingProcesses(e *Env) {
	const workers, rounds = 3, 40
	reg, path := e.register()
	name := e.name()
	all, answers := make([]*process, workers), make([]awaiting, workers)
	for i := range all {
		all[i] = e.process()
	}
	for i, p := range all {
		answers[i] = p.begin(order{Op: opContend, Name: name, Wait: 40 * time.Second, Contend: &contender{i + 1, rounds, path}})
	}
	for i, p := range all {
		a, err := p.await(answers[i], 45*time.Second)
		e.check(err, "a contending process")
		if a.Err != "" {
			e.failf("a contending process: %s", a.Err)
		}
	}
	if n := reg.acquired.Load(); n != workers*rounds {
		e.failf("%d holds were counted, %d took place", n, workers*rounds)
	}
}
