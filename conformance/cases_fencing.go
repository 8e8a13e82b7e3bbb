package conformance

import (
	"time"

	"github.com/lockport/lockport/driver"
)

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
