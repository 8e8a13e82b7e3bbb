package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// SoakOptions sets the size and duration of a soak.
type SoakOptions struct {
	// For is how long it lasts. Default: 1 minute.
	For time.Duration
	// Processes is how many run at a time. Default: 4. With Config.Local they are clients in this process instead.
	Processes int
	// Goroutines is the number of goroutines in each process. Default: 512.
	Goroutines int
	// Patience is the longest that any waiter may wait for a name. Default: 2 minutes.
	Patience time.Duration
	// KillEvery is how often a process is killed, as by kill -9, and replaced. Default: 20 s. Negative: never.
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

// SoakReport is the result of a soak, ready for encoding/json. A soak ends when the first rule is broken.
type SoakReport struct {
	Backend    string        `json:"backend"`
	TTL        time.Duration `json:"ttl_ns"`
	Took       time.Duration `json:"took_ns"`
	Processes  int           `json:"processes"`
	Goroutines int           `json:"goroutines"` // of each process
	Killed     int           `json:"killed"`

	SoakFigures

	// Broken is the broken rule and what was seen. Empty: no rule was broken.
	Broken string `json:"broken,omitempty"`
	// Error says why the soak could not run: the backend could not be opened, or processes cannot be started.
	Error string `json:"error,omitempty"`
}

// SoakFigures count what the goroutines of a soak did.
type SoakFigures struct {
	Acquired  int64         `json:"acquired"`   // holds
	HandedOff int64         `json:"handed_off"` // holds handed off by another goroutine of the process, without a request
	PassedOn  int64         `json:"passed_on"`  // holds of names that another process held before
	GaveUp    int64         `json:"gave_up"`    // calls whose context ended first
	InVain    int64         `json:"in_vain"`    // TryAcquire calls that found the name held
	TooSlow   int64         `json:"too_slow"`   // calls that failed as unavailable after more than 1 s, or half the TTL
	Longest   time.Duration `json:"longest_ns"` // longest wait of a call that got its name
	Latest    time.Duration `json:"latest_ns"`  // latest return of a call after the end of its context
}

// OK reports whether the soak took place and no rule was broken.
func (r SoakReport) OK() bool { return r.Broken == "" && r.Error == "" }

// String returns the report in one line.
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

// Soak starts several processes with many goroutines each. They compete for 128 names; a third of the calls want the same one.
// They acquire in every way: without limit, with contexts that end at any moment, by TryAcquire, and with MinHold and other
// TTLs. Processes are killed and replaced. Soak looks for two holders at a time, tokens that do not rise,
// holds lost on a healthy server, calls that outlast their contexts, and starving waiters. At the end it looks for leaked
// goroutines, connections and keys, and for names that nobody can acquire.
//
// All processes record their holds in shared memory, so the order needs no clock. Call WorkerMain first, as for Run. Soak uses
// no fault of Config.Faults. The TTL is Config.MinTTL; default: 5 s. A machine that cannot renew within the TTL shows losses.
// Soak returns when o.For has passed and all waiters have been granted their names, or when ctx ends.
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
	start := time.Now()
	err = r.once(ctx, Case{
		Alone: true, Limit: o.For + 2*o.Patience + time.Minute, run: func(e *Env) { e.crowds(o, r.ttl, &report) },
	})
	report.Took = time.Since(start)
	if notRun, ok := errors.AsType[errNotRun](err); ok {
		report.Error = notRun.reason
	} else if err != nil && ctx.Err() == nil {
		report.Broken = Result{Rule: ruleCrowd, Reason: err.Error()}.Message()
	}
	return report
}

const ruleCrowd = "P1 exclusion, P2 fencing: in a crowd that acquires in every way and gives up at any time, no name has two holders and tokens rise"

// crowdTTL is the default TTL of a crowd: busy machines renew in time, and waiters behind a killed process do not wait long.
const crowdTTL = 5 * time.Second
