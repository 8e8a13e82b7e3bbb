package history

import (
	"fmt"

	"github.com/lockport/lockport"
)

// Kind says what an [Event] is.
type Kind string

// The kinds of events. Those of an acquisition have its Op; they come in this order, each at most once save Extended.
const (
	Asked     Kind = "asked"     // Acquire, or TryAcquire, is about to be called; Limit is the end of its context
	Got       Kind = "got"       // it returned a hold: Token and Deadline are its
	Failed    Kind = "failed"    // it returned an error: Err
	Extended  Kind = "extended"  // the hold's Deadline has moved
	Told      Kind = "told"      // the hold was lost, and its worker has learned that now: Err is the reason
	Releasing Kind = "releasing" // Release is about to be called; Deadline is the hold's last
	Released  Kind = "released"  // Release returned: Err, if any

	// Believed is a breach that a worker saw by itself: Valid was true although the clock, read before the call, was past Deadline.
	Believed Kind = "believed"
	// Checked is the first call of Valid after the worker was not run for longer than [pauseSeen]: Valid says what it returned.
	Checked Kind = "checked"

	// Wrote and Refused are what became of an update of the fenced register; Value is what was written.
	Wrote   Kind = "wrote"
	Refused Kind = "refused"

	// What the parent does to a worker.
	Spawned Kind = "spawned"
	Killed  Kind = "killed"    // is about to be killed with SIGKILL
	Stopped Kind = "stopped"   // was stopped with SIGSTOP, and has stopped
	Resumed Kind = "continued" // is about to be continued
	Cut     Kind = "cut"       // its network is about to be harmed: Err says how ("silent")
	Mended  Kind = "mended"    // its network is well again

	// Noted is a note of the scheduler: Err is its text ("leader killed"). It is about no worker. Texts with a meaning of their own: see
	// [Injected] and those below it.
	Noted Kind = "noted"
	// Found is what a script saw beside what events tell: Err is a sentence for people, Class what it amounts to.
	Found Kind = "found"
)

// The notes that judges look for; "removed NAME" says that the server was made to forget the lock NAME.
const (
	Injected = "injected" // the fault is about to happen
	Healed   = "healed"   // the fault has ended, and the servers serve
	Away     = "away"     // nobody can acquire from here, whatever was under way
	Back     = "back"     // … to here
	Removed  = "removed " // and the lock's name
)

// Event is one line of a history.
type Event struct {
	At       Instant        `json:"at"`
	Kind     Kind           `json:"kind"`
	Worker   string         `json:"worker,omitempty"` // a process; a worker that is started anew has another name
	Op       int64          `json:"op,omitempty"`     // an acquisition, unique in its worker
	Name     string         `json:"name,omitempty"`   // of the lock
	Token    lockport.Token `json:"token,omitempty"`  // 0: the backend has none
	Deadline Instant        `json:"deadline,omitempty"`
	Limit    Instant        `json:"limit,omitempty"`
	Valid    bool           `json:"valid,omitempty"`
	Value    int64          `json:"value,omitempty"`
	Err      string         `json:"err,omitempty"`
	Class    Class          `json:"class,omitempty"`
	Mode     Mode           `json:"mode,omitzero"` // of an acquisition: Asked has it
}

// Mode is how a name was asked for. The zero value is the plain lock, which is the writer's where there are readers. Permits of a name have nothing to do with
// its lock: a history asks for a name in one of the two ways.
type Mode struct {
	Shared  bool `json:"shared,omitempty"`  // as a reader
	Permits int  `json:"permits,omitempty"` // one of so many permits
}

// About names what the event is about.
func (e *Event) About() string { return fmt.Sprintf("%s/%d on %q", e.Worker, e.Op, e.Name) }

// Class tells errors apart.
type Class string

// The classes of errors.
const (
	ClassHeld        Class = "held"
	ClassLost        Class = "lost"
	ClassUnavailable Class = "unavailable"
	ClassRefused     Class = "refused"
	ClassTimedOut    Class = "timed out" // the caller's context ended
	ClassStale       Class = "stale"     // the register has seen a newer token
	ClassOther       Class = "other"
)
