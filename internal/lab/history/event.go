package history

import (
	"fmt"

	"github.com/lockport/lockport"
)

// Kind says what an [Event] is.
type Kind string

// The kinds of events. Those of an acquisition have its Op. They come in this order, each at most once, except Extended.
const (
	Asked     Kind = "asked"     // Acquire or TryAcquire is about to be called; Limit is the end of its context
	Got       Kind = "got"       // the call returned a hold with this Token and Deadline
	Failed    Kind = "failed"    // the call returned the error Err
	Extended  Kind = "extended"  // the hold's Deadline has moved
	Told      Kind = "told"      // the worker learned that the hold was lost; Err is the reason
	Releasing Kind = "releasing" // Release is about to be called; Deadline is the last one
	Released  Kind = "released"  // Release returned: Err, if any

	// Checked is the first call of Valid after the worker paused, or a call that is [Event.Late]. At is before the call, and Valid is its result.
	Checked Kind = "checked"

	// Wrote and Refused are outcomes of an update of the fenced register. Value is the written number.
	Wrote   Kind = "wrote"
	Refused Kind = "refused"

	// Stalled says that the machine did not run the worker's timers from Limit until At.
	Stalled Kind = "stalled"

	// Actions of the parent on a worker.
	Spawned Kind = "spawned"
	Killed  Kind = "killed"    // is about to be killed with SIGKILL
	Stopped Kind = "stopped"   // has stopped, by SIGSTOP
	Resumed Kind = "continued" // is about to be continued
	Cut     Kind = "cut"       // its network is about to be harmed, as Err says ("silent")
	Mended  Kind = "mended"    // its network works again

	// What the scheduler says of the fault, which refers to no worker.
	Injected Kind = "injected" // the fault is about to happen
	Healed   Kind = "healed"   // the fault has ended, and the servers serve
	Away     Kind = "away"     // from here, nobody can acquire: earlier requests have ended
	Back     Kind = "back"     // until here
	Noted    Kind = "noted"    // a note for people with the text Err ("leader killed")

	// Found is an observation of a script that no other event shows: Err is a sentence for people, Class its classification.
	Found Kind = "found"
)

// Event is one line of a history.
type Event struct {
	At       Instant        `json:"at"`
	Kind     Kind           `json:"kind"`
	Worker   string         `json:"worker,omitempty"` // a process; a restarted worker has a new name
	Op       int64          `json:"op,omitempty"`     // an acquisition, unique within its worker
	Name     string         `json:"name,omitempty"`   // of the lock
	Token    lockport.Token `json:"token,omitempty"`  // 0: the backend has none
	Deadline Instant        `json:"deadline,omitempty"`
	Limit    Instant        `json:"limit,omitempty"`
	Valid    bool           `json:"valid,omitempty"`
	Value    int64          `json:"value,omitempty"`
	Err      string         `json:"err,omitempty"`
	Class    Class          `json:"class,omitempty"`
	Mode     Mode           `json:"mode,omitzero"` // of an acquisition, set in Asked
}

// Mode is how a name was requested. The zero value is the plain lock, which excludes readers too. A history uses a name either with permits or as a
// lock: the two are independent.
type Mode struct {
	Shared  bool `json:"shared,omitempty"`  // as a reader
	Permits int  `json:"permits,omitempty"` // one of this many permits
}

// Late says that Valid was true although its hold's deadline had passed.
func (e *Event) Late() bool {
	return e.Kind == Checked && e.Valid && e.Deadline != 0 && e.At > e.Deadline
}

// About names the acquisition.
func (e *Event) About() string { return fmt.Sprintf("%s/%d on %q", e.Worker, e.Op, e.Name) }

// Class classifies errors.
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
