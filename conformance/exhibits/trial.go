package exhibits

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lockport/lockport/conformance"
)

// Trial is a lock, cases to run on it, and the outcome that each must have.
type Trial struct {
	Kind, Name string
	// Is describes the lock in one sentence.
	Is     string
	Config conformance.Config
	// Cases are IDs of cases of the suite.
	Cases []string
	// Want is the outcome that each case must have.
	Want conformance.Outcome
	// Sees are texts that the reasons of failures must contain: one for all cases, or one for each of Cases.
	Sees []string
}

// Try runs trials, with -short their quick cases alone. It runs eight at once even on few processors: they mostly wait for time to pass.
func Try(t *testing.T, trials ...Trial) {
	reports := make([]conformance.Report, len(trials))
	lanes := make(chan struct{}, 8)
	var running sync.WaitGroup
	for i, x := range trials {
		running.Go(func() {
			lanes <- struct{}{}
			defer func() { <-lanes }()
			reports[i] = conformance.Run(t.Context(), x.Config, conformance.Match(func(c conformance.Case) bool {
				return slices.Contains(x.Cases, c.ID()) && (c.Quick || !testing.Short())
			}))
		})
	}
	running.Wait()
	for i, x := range trials {
		t.Run(x.Kind+"/"+x.Name, func(t *testing.T) {
			if len(x.Cases) == 0 {
				t.Error("the trial has no cases")
			}
			if reports[i].Error != "" {
				t.Error(reports[i].Error)
			}
			if n := len(x.Sees); x.Want == conformance.Fail && (n != 1 && n != len(x.Cases) || slices.Contains(x.Sees, "")) {
				t.Fatalf("Sees has %d texts for %d cases, or an empty one", n, len(x.Cases))
			}
			for n, id := range x.Cases {
				at := slices.IndexFunc(reports[i].Results, func(r conformance.Result) bool { return r.ID() == id })
				if at < 0 && testing.Short() {
					continue
				} else if at < 0 {
					t.Fatalf("%s is not in the suite", id)
				}
				res := reports[i].Results[at]
				switch {
				case res.Outcome != x.Want:
					t.Errorf("%s must %s on this lock: %s. %s", id, x.Want, x.Is, res.Message())
				case x.Want == conformance.Fail && !strings.Contains(res.Reason, x.Sees[n%len(x.Sees)]):
					t.Errorf("%s must say %q; it says: %s", id, x.Sees[n%len(x.Sees)], res.Reason)
				}
			}
		})
	}
}
