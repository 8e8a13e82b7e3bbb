package conformance

import (
	"github.com/lockport/lockport/driver"
)

const ruleFencing = "P2 fencing: tokens grow strictly in the order of grants of a name"

// fencingCases are about P2, at the driver. Cases of contention, silence, loss and crashes check tokens too: silence/expiry those after an expired grant.
var fencingCases = group("fencing",
	quick("holders", ruleFencing, fencing(func(e *Env, t *tokens) {
		a, b, name := e.two()
		for range 10 {
			t.next(a.free(name, "the name was released"), "another client's release")
			t.next(b.free(name, "the name was released"), "another client's release")
			t.next(b.free(name, "the name was released"), "this client's release")
		}
	})),
	quick("renewal", "P2 fencing: a renewal does not change the token", fencing(func(e *Env, _ *tokens) {
		p, _, _, lease := e.held()
		before := lease.Grant().Token
		e.check(p.renewsIfItMust(lease), "renewal")
		now := lease.Grant().Token
		e.require(now == before, "the token was %d before a renewal, %d after it", before, now)
	})),
	quick("abandoned", ruleFencing+", abandoned ones among them", fencing(func(e *Env, t *tokens) {
		a, b, name := e.two()
		for range 5 {
			req := a.request(name)
			lease := a.claimOf(req)
			a.abandon(req)
			t.next(lease.Grant().Token, "a release")
			t.next(b.free(name, "the claim was abandoned"), "an abandoned grant")
		}
	})),
	quick("reopened", ruleFencing+", by backends that were opened later too", fencing(func(e *Env, t *tokens) {
		name := e.name()
		for range 3 {
			p := e.party()
			t.next(p.free(name, "the name was released"), "the last backend was closed")
			e.check(p.Close(), "Close")
		}
	})),
	full("restart", ruleFencing+", across a restart of the server that keeps its data",
		fencing(func(e *Env, t *tokens) { t.acrossRestart(true) }), "Restart"),
	full("restart-without-data", ruleFencing+", across a restart of the server that lost its data, where Capabilities.Token is TokenFailover",
		fencing(func(e *Env, t *tokens) {
			if e.caps.Token < driver.TokenFailover {
				e.notRun("tokens are in order %v only", e.caps.Token)
			}
			t.acrossRestart(false)
		}), "Restart"),
)

// fencing is a case about tokens, which is not run without them.
func fencing(run func(*Env, *tokens)) func(*Env) {
	return func(e *Env) {
		if e.caps.Token == driver.TokenNone {
			e.notRun("there are no tokens")
		}
		run(e, &tokens{e: e})
	}
}

// tokens checks the order of the tokens of one name.
type tokens struct {
	e    *Env
	last uint64
}

// next takes the token of the next grant. after is what came between.
func (t *tokens) next(token uint64, after string) {
	t.e.require(token > t.last, "after %s a grant had token %d, an earlier one %d", after, token, t.last)
	t.last = token
}

// acrossRestart looks at the tokens of a name before and after.
func (t *tokens) acrossRestart(keepData bool) {
	p, name := t.e.party(), t.e.name()
	for range 5 {
		t.next(p.free(name, "the name was released"), "a release")
	}
	t.e.restart(keepData)
	t.next(p.takes(name, t.e.takeover()+callTime, "the server is back").Grant().Token, "a restart")
}
