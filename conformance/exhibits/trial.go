package exhibits

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockport/lockport/conformance"
)

// Trial is a lock, and cases to run on it.
type Trial struct {
	Kind, Name string
	// Is describes the lock in one sentence.
	Is     string
	Config conformance.Config
	// Cases maps the IDs of cases of the suite to what the reasons of their failures must contain. Empty: the case must pass.
	Cases map[string]string
}

// Try runs trials, with -short their quick cases alone. It runs eight at once even on few processors: they mostly wait for time to pass.
func Try(t *testing.T, trials ...Trial) {
	reports := make([]conformance.Report, len(trials))
	lanes := make(chan struct{}, 8)
	var running sync.WaitGroup
	var stalls atomic.Int64
	go func() {
		for last := time.Now(); t.Context().Err() == nil; last = time.Now() {
			if <-time.After(10 * time.Millisecond); time.Since(last) > 200*time.Millisecond {
				stalls.Add(1)
			}
		}
	}()
	for i, x := range trials {
		running.Go(func() {
			lanes <- struct{}{}
			defer func() { <-lanes }()
			wanted := conformance.Match(func(c conformance.Case) bool {
				_, named := x.Cases[c.ID()]
				return named && (c.Quick || !testing.Short())
			})
			for range 3 { // a machine that stalls shows nothing: it may hide a fault
				before := stalls.Load()
				reports[i] = conformance.Run(t.Context(), x.Config, wanted)
				if !slices.ContainsFunc(reports[i].Results, func(r conformance.Result) bool {
					return r.Outcome == conformance.NotRun || stalls.Load() > before && !strings.Contains(r.Reason, x.Cases[r.ID()])
				}) {
					return
				}
			}
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
			if n := len(reports[i].Results); n != len(x.Cases) && !testing.Short() {
				t.Errorf("the suite has %d of these cases: %v", n, x.Cases)
			}
			for _, res := range reports[i].Results {
				want, sees := conformance.Pass, x.Cases[res.ID()]
				if sees != "" {
					want = conformance.Fail
				}
				switch {
				case res.Outcome != want:
					t.Errorf("%s must %s on this lock: %s. %s", res.ID(), want, x.Is, res.Message())
				case !strings.Contains(res.Reason, sees):
					t.Errorf("%s must say %q; it says: %s", res.ID(), sees, res.Reason)
				}
			}
		})
	}
}
