package conformance

import (
	"context"
	"slices"
	"sync"
	"time"
)

// RunOption selects the cases of a Run, or observes it.
type RunOption func(*runOptions)

type runOptions struct {
	match    func(Case) bool
	progress func(Result)
	parallel int
}

func newRunOptions(opts []RunOption) runOptions {
	// 6, however few processors there are: most cases wait for time to pass.
	o := runOptions{match: func(Case) bool { return true }, progress: func(Result) {}, parallel: 6}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// Quick runs the quick cases only.
func Quick() RunOption {
	return Match(func(c Case) bool { return c.Quick })
}

// Match runs only the cases for which match is true. Given twice, both must be true.
func Match(match func(Case) bool) RunOption {
	return func(o *runOptions) {
		before := o.match
		o.match = func(c Case) bool { return before(c) && match(c) }
	}
}

// Progress calls f after every case, one call at a time, in the order in which cases end.
func Progress(f func(Result)) RunOption {
	return func(o *runOptions) { o.progress = f }
}

// Parallel sets how many cases without faults run at once. Default: 6. Cases with faults run beside them, one in each of
// Config.Lanes. Cases that must run alone run after both.
func Parallel(n int) RunOption {
	return func(o *runOptions) { o.parallel = max(n, 1) }
}

// Run runs the suite and reports. It does not use package testing, so a command can call it. When ctx ends, cases that have
// not begun are reported as not run.
func Run(ctx context.Context, cfg Config, opts ...RunOption) Report {
	o := newRunOptions(opts)
	report := Report{Started: time.Now()}
	r, err := newRunner(ctx, cfg)
	if err != nil {
		report.Error = err.Error()
		return report
	}
	report.Backend, report.TTL = r.caps.Backend, r.ttl

	cases := slices.DeleteFunc(Cases(), func(c Case) bool { return !o.match(c) })
	results := make([]Result, len(cases))
	report.Results = results
	var progress sync.Mutex
	r.runAll(ctx, cases, o.parallel, func(i int, res Result) {
		progress.Lock()
		defer progress.Unlock()
		results[i] = res
		o.progress(res)
	})
	for _, res := range results {
		switch res.Outcome {
		case Pass:
			report.Passed++
		case Fail:
			report.Failed++
		default:
			report.NotRun++
		}
	}
	report.Took = time.Since(report.Started)
	return report
}

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
