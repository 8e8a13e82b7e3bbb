package conformance

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// SoakOptions says how large a soak is, and how long it lasts.
type SoakOptions struct {
	// For is how long it lasts. Default: 1 minute.
	For time.Duration
	// Processes is how many there are at a time. Default: 4. Where Config.Local says that other processes cannot reach the locks they are
	// clients of this one.
	Processes int
	// Goroutines is how many each process has. Default: 512.
	Goroutines int
	// Patience is within what time everybody must get a name that he waits for. Default: 2 minutes.
	Patience time.Duration
	// KillEvery is how often one of the processes is killed, as by kill -9, and another begins. Default: 20 s. Negative: never.
	KillEvery time.Duration
}

func (o SoakOptions) withDefaults() SoakOptions {
	o.For = cmp.Or(o.For, time.Minute)
	o.Patience = cmp.Or(o.Patience, 2*time.Minute)
	o.KillEvery = cmp.Or(o.KillEvery, 20*time.Second)
	o.Processes = cmp.Or(max(o.Processes, 0), 4)
	o.Goroutines = cmp.Or(max(o.Goroutines, 0), 512)
	return o
}

// SoakReport is what was seen in a soak, ready for encoding/json. A soak ends with the first rule that is broken.
type SoakReport struct {
	Backend    string        `json:"backend"`
	TTL        time.Duration `json:"ttl_ns"`
	Took       time.Duration `json:"took_ns"`
	Processes  int           `json:"processes"`
	Goroutines int           `json:"goroutines"` // of each process
	Killed     int           `json:"killed"`

	Acquired  int64         `json:"acquired"`   // holds
	HandedOff int64         `json:"handed_off"` // holds that came from another goroutine of the process, without a request
	PassedOn  int64         `json:"passed_on"`  // holds of names that another process had before
	GaveUp    int64         `json:"gave_up"`    // calls whose context ended first
	InVain    int64         `json:"in_vain"`    // calls of TryAcquire that found the name held
	TooSlow   int64         `json:"too_slow"`   // calls that failed because the server took more than 1 s, or half of the TTL, to answer
	Longest   time.Duration `json:"longest_ns"` // wait of a call that got its name
	Latest    time.Duration `json:"latest_ns"`  // return of a call after the end of its context

	// Broken is the rule that was broken, and what was seen. Empty: none was.
	Broken string `json:"broken,omitempty"`
	// Error says why nothing could be run: the backend could not be opened, or there can be no processes.
	Error string `json:"error,omitempty"`
}

// OK says that the soak took place, and that no rule was broken.
func (r SoakReport) OK() bool { return r.Broken == "" && r.Error == "" }

// String is the report in one line.
func (r SoakReport) String() string {
	broken := "0 violations"
	if !r.OK() {
		broken = r.Broken + r.Error
	}
	return fmt.Sprintf("%s: %d acquisitions by %d × %d goroutines in %v, %d handed off inside a process, "+
		"%d passed to another process, %d given up, %d in vain, %d failed by slowness, %d processes killed; "+
		"longest wait %v, latest return %v: %s",
		r.Backend, r.Acquired, r.Processes, r.Goroutines, r.Took.Round(time.Second), r.HandedOff,
		r.PassedOn, r.GaveUp, r.InVain, r.TooSlow, r.Killed,
		r.Longest.Round(time.Millisecond), r.Latest.Round(time.Millisecond), broken)
}

// Soak has crowds of goroutines in several processes race for 128 names, one of which a third of them want, in all the ways in which a lock can be asked
// for: without limit, with contexts that end at any moment, by TryAcquire and Do, with MinHold, MaxHold and other TTLs. Processes are killed and replaced.
// It looks for two holders at a time, tokens that do not rise, holds that are lost on a server that is well, calls that outlast their contexts, and
// waiters that starve. At the end it looks for goroutines, connections and keys that are left, and for names that nobody can have.
//
// All processes write what they do into memory that they share, so the order needs no clock. WorkerMain must have been called, as for Run. Config.Faults
// produces no faults here. The TTL is Config.MinTTL, or else 5 s: a machine that cannot renew in that time shows as losses. Soak returns when o.For has
// passed and everybody has got what they waited for, or when ctx ends.
func Soak(ctx context.Context, cfg Config, o SoakOptions) SoakReport {
	o = o.withDefaults()
	report := SoakReport{Processes: o.Processes, Goroutines: o.Goroutines}
	if cfg.MinTTL == 0 {
		cfg.MinTTL = crowdTTL
	}
	r, err := newRunner(ctx, cfg)
	if err != nil {
		report.Error = err.Error()
		return report
	}
	report.Backend, report.TTL = r.caps.Backend, r.ttl
	res := r.run(ctx, r.cfg, Case{
		Group: "exclusion", Name: "crowd", Rule: ruleCrowd, Alone: true, Limit: o.For + 2*o.Patience + time.Minute,
		Run: func(_ context.Context, e *Env) error { return e.crowds(o, r.ttl, &report) },
	})
	report.Took = res.Took
	switch res.Outcome {
	case Fail:
		report.Broken = res.Message()
	case NotRun:
		report.Error = res.Reason
	}
	return report
}

const ruleCrowd = "P1 exclusion, P2 fencing: in a crowd that asks for names in every way, and gives up at every moment, nobody shares a name and tokens rise"

// crowdTTL is what the locks of a crowd have where nobody says otherwise: so long that a busy machine renews them in time, and not too long for who waits
// for the lock of a process that was killed.
const crowdTTL = 5 * time.Second
