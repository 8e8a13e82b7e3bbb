package conformance

import "time"

// How long things may take. The suite asserts no speed: these bounds are far above what a correct backend needs, and far below
// what a broken one takes, on a busy machine too.
const (
	// soon is for what follows at once from something else: a wake-up, a callback, the end of a wait.
	soon = 2 * time.Second
	// endTime is how long after the end of its context a call may return. Promised are 100 ms in 99 cases of 100.
	endTime = time.Second
)

// takeover is how long after its holder fell silent a name may be taken: the TTL, and what a server's clockwork adds.
func (e *Env) takeover() time.Duration { return e.ttl + e.ttl/4 + 1500*time.Millisecond }

// sleep lets d pass, for what is about the passing of time itself.
func (e *Env) sleep(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-e.ctx.Done():
		e.failf("the case ran out of time")
	}
}
