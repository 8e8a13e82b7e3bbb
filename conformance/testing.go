package conformance

import (
	"context"
	"testing"
)

// Test runs the suite, each case as a parallel subtest, which runs when t's function has returned: end what cfg needs with
// t.Cleanup. With -short it runs the quick cases only. A case that cannot run is skipped with its reason. The number of cases
// at once does not depend on -parallel, because most wait for time to pass. Of the options, only Progress has no effect.
func Test(t *testing.T, cfg Config, opts ...RunOption) {
	o := newRunOptions(opts)
	r, err := newRunner(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	var cases []Case // those that -run selects
	var results []chan Result
	for _, c := range Cases() {
		if testing.Short() && !c.Quick || !o.match(c) {
			continue
		}
		t.Run(c.ID(), func(t *testing.T) {
			result := make(chan Result, 1)
			cases, results = append(cases, c), append(results, result)
			t.Parallel() // resumes when runAll runs
			switch res := <-result; res.Outcome {
			case Fail:
				t.Errorf("%s\n(after %v; %d earlier runs showed nothing)", res.Message(), res.Took, res.Again)
			case NotRun:
				t.Skip("not run: " + res.Reason)
			default:
				t.Logf("passed in %v", res.Took)
				if res.Again > 0 {
					t.Logf("%d earlier runs showed nothing, because machine or server stalled", res.Again)
				}
			}
		})
	}
	go r.runAll(context.WithoutCancel(t.Context()), cases, o.parallel, func(i int, res Result) { results[i] <- res })
}
