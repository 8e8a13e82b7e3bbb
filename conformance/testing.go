package conformance

import (
	"context"
	"testing"
)

// Test runs the suite, each case a subtest. With -short it runs the quick cases only. A case that cannot be run is
// skipped with its reason.
func Test(t *testing.T, cfg Config) {
	r, err := newRunner(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range Cases() {
		if testing.Short() && !c.Quick {
			continue
		}
		t.Run(c.ID(), func(t *testing.T) {
			if !c.alone() {
				t.Parallel()
			}
			switch res := r.run(context.WithoutCancel(t.Context()), c); res.Outcome {
			case Fail:
				t.Error(res.Message())
			case NotRun:
				t.Skip("not run: " + res.Reason)
			}
		})
	}
}
