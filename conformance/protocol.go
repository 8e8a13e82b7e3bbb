package conformance

import "time"

// Environment of a worker process.
const (
	workerVariable = "LOCKPORT_CONFORMANCE_WORKER" // set: the process is a worker
	targetVariable = "LOCKPORT_CONFORMANCE_TARGET" // what its backend is opened with
	ttlVariable    = "LOCKPORT_CONFORMANCE_TTL"    // the TTL of its claims
)

// order is a line of JSON that a worker reads from its standard input. Orders run at the same time as each other; each is
// answered by one line on standard output.
type order struct {
	ID   int    `json:"id"`
	Op   string `json:"op"`
	Name string `json:"name,omitempty"`
	Hold int    `json:"hold,omitempty"` // what an earlier answer gave
	// Wait bounds the order.
	Wait time.Duration `json:"wait,omitempty"`

	// For contend: how often, and the two files.
	Rounds  int    `json:"rounds,omitempty"`
	Journal string `json:"journal,omitempty"`
	Counter string `json:"counter,omitempty"`

	// For crowd.
	Crowd *crowd `json:"crowd,omitempty"`
}

// The operations.
const (
	opClaim   = "claim"   // one claim through the driver, never renewed
	opAcquire = "acquire" // Acquire through a client, which renews
	opValid   = "valid"   // Valid and Err of a hold of acquire
	opRelease = "release" // of either
	opContend = "contend" // acquire, count and release, Rounds times
	opCrowd   = "crowd"   // take part in a race of crowds
)

// answer is what a worker says to an order. The answer with ID 0 comes first and says that the worker is ready.
type answer struct {
	ID    int    `json:"id"`
	Hold  int    `json:"hold,omitempty"`
	Token uint64 `json:"token,omitempty"` // as lockport gives it, or, for claim, the driver's
	Valid bool   `json:"valid,omitempty"`
	Err   string `json:"err,omitempty"`
	Lost  bool   `json:"lost,omitempty"` // Err matches ErrLost
}
