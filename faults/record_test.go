package faults_test

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/lockport/lockport/faults"
)

// record sums up what phases have shown. Safe for concurrent use.
type record struct {
	begun time.Time

	mu       sync.Mutex
	phases   int
	sums     map[string]sum // by environment
	lastTold time.Time
}

type sum struct{ acquisitions, readers, permits int }

func newRecord() *record {
	return &record{begun: time.Now(), lastTold: time.Now(), sums: make(map[string]sum)}
}

// add counts a phase. Once a minute it prints the progress of a long run.
func (r *record) add(environment string, v *faults.Verdict) {
	readers, permits := v.History.Joins()
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sums[environment]
	r.sums[environment] = sum{s.acquisitions + len(v.History.Spans), s.readers + readers, s.permits + permits}
	r.phases++
	if *forTime > 0 && time.Since(r.lastTold) > time.Minute {
		r.lastTold = time.Now()
		fmt.Fprintln(os.Stderr, r.summary())
	}
}

// summary is one line for people.
func (r *record) summary() string {
	return fmt.Sprintf("%v: %d phases (seed %d)", time.Since(r.begun).Round(time.Second), r.phases, *seedFlag)
}

// finish logs the sum, and fails t if storms never had two readers, or two permits, at once.
func (r *record) finish(t *testing.T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.Log(r.summary())
	for _, a := range faults.All() {
		const many = 300 // acquisitions that only storms reach
		s := r.sums[a.Name]
		if s.acquisitions > many && (a.Readers && s.readers == 0 || a.Permits && s.permits == 0) {
			t.Errorf("of %d acquisitions on %s, %d readers joined another, and %d permits were granted beside another: the storms do not test them",
				s.acquisitions, a.Name, s.readers, s.permits)
		}
	}
}
