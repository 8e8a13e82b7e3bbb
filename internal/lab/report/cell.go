package report

import "strings"

// Hazard is a row: one way in which a distributed lock goes wrong. Its texts are for people new to locks.
type Hazard struct {
	ID       string   `json:"id"`       // "H7"
	Title    string   `json:"title"`    // a few words: "The master fails before it has copied the lock"
	Happens  string   `json:"happens"`  // what happens, in two or three plain sentences
	Do       string   `json:"do"`       // what to do about it, in one or two
	Articles []string `json:"articles"` // "002": articles that teach or overlook it
}

// Cell is one hazard on one subject: what was observed, never what was expected.
type Cell struct {
	Hazard  string `json:"hazard"`
	Subject string `json:"subject"`
	// Variant distinguishes cells of one hazard and subject: "replicas=1"; empty for the usual one.
	Variant string `json:"variant,omitempty"`
	// Setup says what ran, and what was done to it: "A Redis with a replica. The link between them is cut …".
	Setup string `json:"setup"`
	// Lock describes the lock of an article and its flaw, if any; empty for lockport's.
	Lock string `json:"lock,omitempty"`
	// NotRun says why there is no run: it cannot happen here, or a server is missing. The fields below are empty then.
	NotRun string `json:"not_run,omitempty"`
	// Class is the worst of its runs.
	Class Class `json:"class,omitempty"`
	// Seen is in how many of its Of runs the harm was seen, if Class is not [Safe].
	Seen int `json:"seen"`
	Of   int `json:"of"`
	// Observed says in one to three sentences, with figures, what happened in the run that shows Class best.
	Observed string `json:"observed,omitempty"`
	// LateWrite is the outcome of an older holder's write after a newer one had the lock: "refused", "landed", or empty if there was none.
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

// Run is one play of a cell. All times are in milliseconds since its beginning.
type Run struct {
	Class    Class   `json:"class"`
	Observed string  `json:"observed"`
	Took     float64 `json:"took"`
	// Lanes are the clients, each a process, ordered by start.
	Lanes []Lane `json:"lanes"`
	// Faults are when the fault lasted, drawn across all lanes.
	Faults []Band `json:"faults,omitempty"`
	// Marks are remarks at an instant: "the master is killed".
	Marks []Mark `json:"marks,omitempty"`
	// Overlaps are when two believed they held the lock.
	Overlaps []Overlap `json:"overlaps,omitempty"`
}

// Lane is what one client did.
type Lane struct {
	Client string `json:"client"` // "A"
	Spans  []Span `json:"spans,omitempty"`
	// Stopped: its process was stopped (SIGSTOP). Cut: its network was cut or silent. Killed: when it was killed, 0 if it was not.
	Stopped []Band  `json:"stopped,omitempty"`
	Cut     []Band  `json:"cut,omitempty"`
	Killed  float64 `json:"killed,omitempty"`
	// Writes are its writes to the protected resource.
	Writes []Write `json:"writes,omitempty"`
}

// Span is an acquisition: requested at Asked and, if Held, believed from Got to Until.
type Span struct {
	Asked float64 `json:"asked"`
	// Held says that the lock was acquired. Otherwise the attempt ended at Until.
	Held  bool    `json:"held"`
	Got   float64 `json:"got,omitempty"`
	Until float64 `json:"until"`
	Token Token   `json:"token,omitempty"` // the fencing token
	// Ending says for people how it ended: "released", "told that it was lost", "the deadline passed", "killed".
	Ending string `json:"ending,omitempty"`
}

// Band is a period.
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

// Overlap is a period in which two believed they held the lock.
type Overlap struct {
	From   float64  `json:"from"`
	To     float64  `json:"to"`
	Older  string   `json:"older"` // clients
	Newer  string   `json:"newer"`
	Tokens [2]Token `json:"tokens"` // of the two
}

// Write is an attempt to write to the protected resource.
type Write struct {
	At      float64 `json:"at"`
	Refused bool    `json:"refused"` // by the fence
	// Late says that a newer holder came before the write.
	Late bool `json:"late,omitempty"`
}
