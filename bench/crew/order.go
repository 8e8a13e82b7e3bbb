// Package crew has the processes in which libraries run: this binary again, one library in each, so that what one costs is not another's, and several
// processes can want one name. They read one clock, that of the machine.
package crew

import (
	"time"

	"github.com/lockport/lockport/faults"

	"github.com/lockport/lockport/bench/lib"
	"github.com/lockport/lockport/bench/usage"
)

// Posting is what a worker works with.
type Posting struct {
	Family, Library string
	Config          lib.Config
	// Profiles, if not empty, is the beginning of the names of the files into which it writes its profiles when it ends.
	Profiles string `json:",omitempty"`
}

// Order is what a worker is told to do. It answers when it is done.
type Order struct {
	Do   Task
	Name string `json:",omitempty"`
	// Goroutines is how many take part, and Most how often each does it, or how many names there are.
	Goroutines, Most int           `json:",omitempty"`
	For              time.Duration `json:",omitempty"`
	// Begin is when it is to begin.
	Begin faults.Instant `json:",omitempty"`
	// Grace is how long after the end those who still wait are waited for.
	Grace time.Duration `json:",omitempty"`
	// Stay is how long each hold lasts under contention.
	Stay time.Duration `json:",omitempty"`
	// Try makes single attempts instead of waiting.
	Try bool `json:",omitempty"`
}

// Task is what an order asks for.
type Task string

const (
	Cycle   Task = "cycle"   // take and release, each goroutine its own name: P50, P99, Count, Before, After
	Contend Task = "contend" // take and release, all the same name: Holds, Before, After
	HandOff Task = "handoff" // from a release to the grant of another goroutine: Samples
	Acquire Task = "acquire" // take and keep; At is when that had returned
	Release Task = "release" // release it; At is when that was called
	Hold    Task = "hold"    // take many names and keep them
	Wait    Task = "wait"    // wait for a name until the worker ends; answered when all have begun to
	Usage   Task = "usage"   // After is what the process has used; Try: as it is, without removing garbage
)

// Answer is what a worker says to an order.
type Answer struct {
	At       faults.Instant `json:",omitempty"`
	Count    int            `json:",omitempty"`
	Took     time.Duration  `json:",omitempty"`
	P50, P99 float64        `json:",omitempty"` // microseconds
	Samples  []float64      `json:",omitempty"` // microseconds
	Holds    []byte         `json:",omitempty"` // see unpack
	Before   usage.Usage
	After    usage.Usage
}
