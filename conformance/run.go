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
