package conformance

import "time"

// Outcome is the outcome of a case.
type Outcome string

// The outcomes.
const (
	Pass   Outcome = "pass"
	Fail   Outcome = "fail"
	NotRun Outcome = "not run"
)

// Result is the result of one case.
type Result struct {
	Group   string  `json:"group"`
	Name    string  `json:"name"`
	Rule    string  `json:"rule"`
	Outcome Outcome `json:"outcome"`
	// Reason says how the rule was broken, or why the case was not run.
	Reason string        `json:"reason,omitempty"`
	Took   time.Duration `json:"took_ns"`
	// Again is how often the case started again, because machine or server stalled and the failure showed nothing.
	Again int `json:"again,omitempty"`
}

// ID returns the group and the name of the case.
func (r Result) ID() string { return r.Group + "/" + r.Name }

// Message returns the failure in words: the rule, then what was seen.
func (r Result) Message() string { return r.Rule + "\n    seen: " + r.Reason }

// Report is the result of a run, ready for encoding/json.
type Report struct {
	Backend string        `json:"backend"`
	TTL     time.Duration `json:"ttl_ns"` // of the cases
	Started time.Time     `json:"started"`
	Took    time.Duration `json:"took_ns"`
	Passed  int           `json:"passed"`
	Failed  int           `json:"failed"`
	NotRun  int           `json:"not_run"`
	Results []Result      `json:"results"` // in the order of Cases
	// Error says why no case could run, such as a backend that could not be opened.
	Error string `json:"error,omitempty"`
}

// OK reports whether the run began and no case failed. Cases that were not run do not count.
func (r Report) OK() bool { return r.Error == "" && r.Failed == 0 }
