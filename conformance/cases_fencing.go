package conformance

import (
	"github.com/lockport/lockport/driver"
)

const ruleFencing = "P2 fencing: tokens grow strictly in the order of grants of a name"

// fencingCases are about P2, at the driver. Contention and crashes check tokens too.
var fencingCases = group("fencing",
	quick("holders", ruleFencing, func(e *Env) {
		a, b := e.party(), e.party()
		t := e.tokens()
		name := e.name()
		for range 10 {
			t.next(a.free(name, "the name was released"), "another client's release")
			t.next(b.free(name, "the name was released"), "another client's release")
			t.next(b.free(name, "the name was released"), "this client's release")
		}
	}),
	quick("renewal", "P2 fencing: a renewal does not change the token", func(e *Env) {
		p := e.party()
		e.tokens()
		lease := p.claim(e.name())
		before := lease.Grant().Token
		_, err := p.renewsIfItMust(lease)
		e.check(err, "renewal")
		if now := lease.Grant().Token; now != before {
			e.failf("the token was %d before a renewal, %d after it", before, now)
		}
	}),
	quick("abandoned", ruleFencing+", abandoned ones among them", func(e *Env) {
		a, b := e.party(), e.party()
		t := e.tokens()
		name := e.name()
		for range 5 {
			req := a.request(name)
			lease, _ := a.claimOf(req)
			a.abandon(req)
			t.next(lease.Grant().Token, "a release")
			t.next(b.free(name, "the claim was abandoned"), "an abandoned grant")
		}
	}),
	quick("reopened", ruleFencing+", by backends that were opened later too", func(e *Env) {
		t := e.tokens()
		name := e.name()
		for range 3 {
			p := e.party()
			t.next(p.free(name, "the name was released"), "the last backend was closed")
			e.check(p.Close(), "Close")
		}
	}),
	full("expired", ruleFencing+", expired ones among them", func(e *Env) {
		a, b := e.party(), e.party()
		t := e.tokens()
		name := e.name()
		old, next := expired(e, a, b, name)
		t.next(old.Grant().Token, "")
		t.next(next.Grant().Token, "an expired grant")
	}),
	full("removed", ruleFencing+", when the server lost the lock too", func(e *Env) {
		a, b := e.party(), e.party()
		t := e.tokens()
		name := e.name()
		t.next(a.claim(name).Grant().Token, "")
		e.remove(name)
		t.next(b.takes(name, soon, "the server was made to forget the lock").Grant().Token, "a grant that the server forgot")
	}).needing(NeedRemove),
	full("restart", ruleFencing+", across a restart of the server that keeps its data", func(e *Env) { tokensAcrossRestart(e, true) }).needing(NeedRestart),
	full("restart-without-data", ruleFencing+", across a restart of the server that lost its data, where Capabilities.Token is TokenFailover", func(e *Env) {
		if e.caps.Token < driver.TokenFailover {
			e.notRun("tokens are in order %v only", e.caps.Token)
		}
		tokensAcrossRestart(e, false)
	}).needing(NeedRestart),
)

// tokensAcrossRestart looks at the tokens of a name before and after.
func tokensAcrossRestart(e *Env, keepData bool) {
	t := e.tokens()
	name := e.name()
	p := e.party()
	for range 5 {
		t.next(p.free(name, "the name was released"), "a release")
	}
	e.restart(keepData)
	t.next(p.takes(name, e.takeover()+callTime, "the server is back").Grant().Token, "a restart")
}

// tokens checks the order of the tokens of one name. A case about tokens is not run without them.
func (e *Env) tokens() *tokens {
	if e.caps.Token == driver.TokenNone {
		e.notRun("there are no tokens")
	}
	return &tokens{e: e}
}

type tokens struct {
	e    *Env
	last uint64
}

// next takes the token of the next grant. after is what came between.
func (t *tokens) next(token uint64, after string) {
	if token <= t.last {
		t.e.failf("after %s a grant had token %d, an earlier one %d", after, token, t.last)
	}
	t.last = token
}
