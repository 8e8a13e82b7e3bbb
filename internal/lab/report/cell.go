package report

import "strings"

// Hazard is a row: one way in which a distributed lock goes wrong. Its texts are for people who have not read about it.
type Hazard struct {
	ID       string   `json:"id"`       // "H7"
	Title    string   `json:"title"`    // a few words: "The master fails before it has copied the lock"
	Happens  string   `json:"happens"`  // what happens, in two or three plain sentences
	Do       string   `json:"do"`       // what to do about it, in one or two
	Articles []string `json:"articles"` // "002"; those in which it is taught, or overlooked
}

// OnlyFull is the [Cell.NotRun] of what a quick run leaves out. A matrix leaves it out too where it shows another variant of the same cell.
const OnlyFull = "It is played by a full run alone (--full)."

// Cell is one hazard on one subject: what was observed, never what was expected.
type Cell struct {
	Hazard  string `json:"hazard"`
	Subject string `json:"subject"`
	// Variant tells several cells of one hazard and subject apart: "replicas=1"; empty for the usual one.
	Variant string `json:"variant,omitempty"`
	// Setup says what ran, and what was done to it, in a sentence: "a Redis with a replica; the link between them is cut, the master is killed …".
	Setup string `json:"setup"`
	// Lock is the lock of an article: what is broken in it, or how it is sound; empty for lockport's own.
	Lock string `json:"lock,omitempty"`
	// NotRun says why there is nothing to see: it cannot happen here, or a server is missing. Nothing below is set then.
	NotRun string `json:"not_run,omitempty"`
	// Class is the worst of its runs.
	Class Class `json:"class,omitempty"`
	// Seen is in how many of its runs, Of, the harm was seen, which is what Class says where it is not [Safe].
	Seen int `json:"seen"`
	Of   int `json:"of"`
	// Observed says what happened in the run that shows Class best, in one to three sentences with its figures.
	Observed string `json:"observed,omitempty"`
	// LateWrite says what became of what an older holder wrote after a newer one had the lock: "refused", "landed", or empty if nobody did.
	LateWrite string `json:"late_write,omitempty"`
	Runs      []Run  `json:"runs,omitempty"`
}

// ID is the cell's anchor in HTML, and the name of its picture: "H7-redis", "H7-redis-replicas-1".
func (c *Cell) ID() string {
	id := anchorOf(c.Hazard) + "-" + anchorOf(c.Subject)
	if c.Variant != "" {
		id += "-" + strings.Trim(strings.ToLower(anchorOf(c.Variant)), "-")
	}
	return id
}

// Run is one play of a cell. All its times are milliseconds since it began.
type Run struct {
	Class    Class   `json:"class"`
	Observed string  `json:"observed"`
	Took     float64 `json:"took"`
	// Lanes are the clients, each a process, in the order in which they began.
	Lanes []Lane `json:"lanes"`
	// Faults are when the fault lasted, as a band over all lanes.
	Faults []Band `json:"faults,omitempty"`
	// Marks are remarks at an instant: "the master is killed".
	Marks []Mark `json:"marks,omitempty"`
	// Overlaps are when two believed to hold the lock.
	Overlaps []Overlap `json:"overlaps,omitempty"`
}

// Lane is what one client did.
type Lane struct {
	Client string `json:"client"` // "A"
	Spans  []Span `json:"spans,omitempty"`
	// Stopped are when its process was stopped (SIGSTOP), Cut when its network was cut or silent; Killed is when it was killed, 0 if it was not.
	Stopped []Band  `json:"stopped,omitempty"`
	Cut     []Band  `json:"cut,omitempty"`
	Killed  float64 `json:"killed,omitempty"`
	// Writes are what it wrote to what the lock protects.
	Writes []Write `json:"writes,omitempty"`
}

// Span is an acquisition: asked for at Asked, and, if Held, believed in from Got to Until.
type Span struct {
	Asked float64 `json:"asked"`
	// Held says that it was got; otherwise it was given up at Until.
	Held  bool    `json:"held"`
	Got   float64 `json:"got,omitempty"`
	Until float64 `json:"until"`
	Token Token   `json:"token,omitempty"` // the fencing token
	// Ending says what ended it, for people: "released", "told that it was lost", "the deadline passed", "killed".
	Ending string `json:"ending,omitempty"`
}

// Band is a time that lasted.
type Band struct {
	From float64 `json:"from"`
	To   float64 `json:"to"`
	What string  `json:"what,omitempty"`
}

// Mark is an instant.
type Mark struct {
	At   float64 `json:"at"`
	What string  `json:"what"`
}

// Overlap is a time in which two believed.
type Overlap struct {
	From   float64  `json:"from"`
	To     float64  `json:"to"`
	Older  string   `json:"older"` // clients
	Newer  string   `json:"newer"`
	Tokens [2]Token `json:"tokens"` // of the two
}

// Write is an attempt to write to what the lock protects.
type Write struct {
	At      float64 `json:"at"`
	Refused bool    `json:"refused"` // by the fence
	// Late says that a newer holder had been there before.
	Late bool `json:"late,omitempty"`
}
