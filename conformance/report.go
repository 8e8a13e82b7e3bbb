package conformance

import (
	"time"

	"github.com/lockport/lockport/driver"
)

// Outcome is what became of a case.
type Outcome string

// The outcomes.
const (
	Pass   Outcome = "pass"
	Fail   Outcome = "fail"
	NotRun Outcome = "not run"
)

// Result is what became of one case.
type Result struct {
	Group   string  `json:"group"`
	Name    string  `json:"name"`
	Rule    string  `json:"rule"`
	Outcome Outcome `json:"outcome"`
	// Reason says what was seen where the rule was broken, or why the case was not run.
	Reason string `json:"reason,omitempty"`
	// Where is the line of the case where that was seen.
	Where string        `json:"where,omitempty"`
	Took  time.Duration `json:"took_ns"`
}

// ID is the group and the name of the case.
func (r Result) ID() string { return r.Group + "/" + r.Name }

// Message is the failure in words: first the rule, then what was seen.
func (r Result) Message() string { return r.Rule + "\n    seen: " + r.Reason }

// Report is what became of a run, ready for encoding/json.
type Report struct {
	Backend string        `json:"backend"`
	TTL     time.Duration `json:"ttl_ns"` // of the cases
	Started time.Time     `json:"started"`
	Took    time.Duration `json:"took_ns"`
	Passed  int           `json:"passed"`
	Failed  int           `json:"failed"`
	NotRun  int           `json:"not_run"`
	Results []Result      `json:"results"` // in the order of the table
	// Error says why nothing could be run at all: the backend could not be opened.
	Error string `json:"error,omitempty"`

	// Capabilities are those that were held against the backend.
	Capabilities driver.Capabilities `json:"-"`
}

// OK says that the run began, and no case failed. Cases that were not run do not count.
func (r Report) OK() bool { return r.Error == "" && r.Failed == 0 }
