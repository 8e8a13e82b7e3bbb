package play

import (
	"time"

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
	// Script is a [Storm] in which the fault is injected, or leads workers through one interleaving. It takes all choices from Rand, so a seed
	// replays them. Play restores what stays broken. With [report.Unavailable] the script calls Away and Back.
	Script Act
	// Belief is how long Both lets an overlap last, so that people see it. Scripts then do not wait until the older holder knows of its loss.
	Belief time.Duration
	// TTL overrides the environment's TTL of locks, and URL maps an endpoint's URL to the one that workers open.
	TTL time.Duration
	URL func(endpoint string) string
	// Harmless says that the fault affects only workers and their network. The servers need no healing, and other phases can use them meanwhile.
	Harmless bool
	// Lead has the workers of a storm campaign as leaders instead of acquiring locks.
	Lead bool
	// Tries is within how many plays of an unsafe cell two workers must be seen to believe they hold the lock; 0 means 1. If one play may miss it,
	// the probability that all miss it must be below 10⁻⁶.
	Tries int
	// Argued says that an unsafe outcome is stated by argument: the overlap is not asserted.
	Argued bool
	// Gone says that the server may end claims at the moment of the fault, as when a session is killed or the server restarts. The linearizability
	// check lets claims expire from then on.
	Gone bool
}
