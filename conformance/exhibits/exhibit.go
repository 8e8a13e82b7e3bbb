// Package exhibits is a collection of broken locks. Each has one fault that real locks have. They test package conformance: a
// suite that passes a broken lock proves nothing. Do not use them for anything else.
//
// All are made of one sound lock: a client of the memory backend, behind faults like those of a network. An exhibit replaces
// one of its steps. The sound lock passes every case that needs no other process.
package exhibits

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lockport/lockport/conformance"
)

// Exhibit is a lock with one fault.
type Exhibit struct {
	// Name identifies the fault.
	Name string
	// Is describes the fault in one sentence.
	Is string
	// CaughtBy maps the IDs of cases that must fail to what their reasons must contain. Others may fail too.
	CaughtBy map[string]string

	spoil func(*lock)
}

type caught = map[string]string // the type of CaughtBy

// Config returns a Config with x as the backend under test, on a new server.
func (x Exhibit) Config() conformance.Config { return config(x.spoil) }

// All returns all exhibits.
func All() []Exhibit {
	return slices.Concat(claims, releases, renewals, outcomes, waits, modes, statements)
}

// Sound returns a Config for the sound lock of which the exhibits are made.
func Sound() conformance.Config { return config(func(*lock) {}) }

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
	for i, x := range trials {
		running.Go(func() {
			lanes <- struct{}{}
			defer func() { <-lanes }()
			wanted := conformance.Match(func(c conformance.Case) bool {
				_, named := x.Cases[c.ID()]
				return named && (c.Quick || !testing.Short())
			})
			for range 3 { // a machine that stalls for long shows nothing
				reports[i] = conformance.Run(t.Context(), x.Config, wanted)
				if !slices.ContainsFunc(reports[i].Results, func(r conformance.Result) bool { return r.Outcome == conformance.NotRun }) {
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
