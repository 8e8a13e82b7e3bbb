package play

import (
	"time"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/report"
)

// Cell is a fault that can happen in an environment, and what is stated of it.
type Cell struct {
	// Fault is its name: "holder-killed", "leader-paused".
	Fault string
	// Outcome is what is stated. [report.Fenced]: two can believe to hold a lock, and their tokens rise, so that a fence refuses the older one.
	Outcome report.Class
	// Why says in a sentence, for people, why it is so, or what happens.
	Why string
	// Inject makes the fault while workers work, lets it last, and ends it. Heal restores what is broken for good. Its choices come from Rand alone, so
	// that a seed replays them. With [report.Unavailable] it calls Away and Back.
	Inject Act
	// Script, instead of Inject, leads commanded workers through one interleaving. Unsafe cells have one, unless the fault shows it by itself. Two
	// workers must then be seen to believe that they hold the lock, within Tries plays (default 1).
	Script Act
	// Belief is for how long Both lets an overlap last, so that people see it. With one, no script waits until the older holder has learned of it.
	Belief time.Duration
	// TTL is that of the locks, where it is not the environment's, and URL what workers open in place of an endpoint's.
	TTL time.Duration
	URL func(endpoint string) string
	// Harmless says that the fault is of workers and their network alone: the servers need not be healed, and others can be at work there meanwhile.
	Harmless bool
	// Busy makes workers hold as often as possible, rather than as long as it takes to be hit.
	Busy bool
	// Lead has the workers lead, rather than take and release locks.
	Lead *Lead
	// Tries is within how many plays the overlap must be seen. What is not certain in one play must be missed in all of them with a probability of less
	// than 10⁻⁶.
	Tries int
	// Argued says that an unsafe outcome is stated by argument and not shown: nothing is asserted.
	Argued bool
	// Recovery is within which time after the fault somebody acquires again. docs/guarantees.md states it; the tests assert ten times as much. Default: the
	// TTL and 1 s.
	Recovery time.Duration
	// Gone says that the server may end claims at the very moment of the fault (a session is killed, the server restarts), so that the judge of
	// linearizability lets them expire from then on.
	Gone bool
}

// Patience is how many times the stated time a test waits for what should happen: machines are noisy.
const Patience = 10

// RecoveryIn is within which time after the fault somebody acquires again in e.
func (c *Cell) RecoveryIn(e *environment.Environment) time.Duration {
	if c.Recovery > 0 {
		return c.Recovery
	}
	return e.TTL + time.Second
}
