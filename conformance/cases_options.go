package conformance

import (
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

// optionsCases test what the backend has a part in. The tests of package lockport hold the other options, and Do.
var optionsCases = group("options",
	quick("min-hold-and-close", "options: Close waits until MinHold has passed", func(e *Env) {
		const least = 500 * time.Millisecond
		a, b, start := e.client(), e.client(), time.Now()
		l := e.acquire(a, e.name(), lockport.MinHold(least))
		e.release(l)
		e.check(a.Close(), "Close")
		took := time.Since(start)
		e.require(took >= least, "Close returned after %v, but MinHold is %v", took, least)
		e.release(e.acquireWithin(b, l.Name(), soon, "Close has returned"))
	}),
	quick("deadline",
		"options: Deadline precedes any other grant of the name, and there is none exactly if claims do not expire", func(e *Env) {
			l := e.acquire(e.client(), e.name())
			deadline, ok := l.Deadline()
			left := time.Until(deadline)
			e.require(ok || e.caps.Ends != driver.EndsTTL, "claims end with their TTL, but there is no Deadline")
			e.require(!ok || e.caps.Ends != driver.EndsProcess, "claims end with their process, but there is a Deadline, in %v", left)
			e.require(!ok || left > 0 && left < e.ttl, "the Deadline is in %v, but the TTL is %v", left, e.ttl)
			e.release(l)
		}),
)
