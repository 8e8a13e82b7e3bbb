package play

import (
	"time"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/report"
)

// Cell is a fault that can happen in an environment, and its stated outcome.
type Cell struct {
	// Fault is its name: "holder-killed", "leader-paused".
	Fault string
	// Outcome is the stated outcome. [report.Fenced]: two can believe they hold the lock, but their tokens rise, so a fence refuses the older one.
	Outcome report.Class
	// Why is one sentence for people: the reason, or what happens.
	Why string
	// Inject makes the fault while workers work, keeps it up, and ends it. Heal restores what stays broken. Inject takes all choices from Rand, so a
	// seed replays them. With [report.Unavailable] it calls Away and Back.
	Inject Act
	// Script replaces Inject: it leads workers through one interleaving. Unsafe cells have one, unless the fault alone shows the overlap. Within
	// Tries plays (default 1), two workers must be seen to believe they hold the lock.
	Script Act
	// Belief is how long Both lets an overlap last, so that people see it. If it is set, scripts do not wait until the older holder knows of its
	// loss.
	Belief time.Duration
	// TTL overrides the environment's TTL of locks, and URL maps an endpoint's URL to the one that workers open.
	TTL time.Duration
	URL func(endpoint string) string
	// Harmless says that the fault affects only workers and their network. The servers need no healing, and other phases can use them meanwhile.
	Harmless bool
	// Lead has the workers campaign as leaders instead of acquiring locks.
	Lead *Lead
	// Tries is within how many plays the overlap must be seen. If one play may miss it, the probability that all miss it must be below 10⁻⁶.
	Tries int
	// Argued says that an unsafe outcome is stated by argument: the overlap is not asserted.
	Argued bool
	// Recovery is within which time after the fault everybody acquires again. The tests assert [Patience] times as much. Default: the TTL plus 1 s.
	Recovery time.Duration
	// Gone says that the server may end claims at the moment of the fault, as when a session is killed or the server restarts. The linearizability
	// check lets claims expire from then on.
	Gone bool
}

// Patience is how many times the stated time a test waits: machines are noisy.
const Patience = 10

// RecoveryIn returns within which time after the fault everybody acquires again in e.
func (c *Cell) RecoveryIn(e *environment.Environment) time.Duration {
	if c.Recovery > 0 {
		return c.Recovery
	}
	return e.TTL + time.Second
}
