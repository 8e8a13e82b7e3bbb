package faults_test

import (
	"sync"
	"testing"
	"time"

	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/environment"
)

// record sums up what phases have shown. Safe for concurrent use.
type record struct {
	begun time.Time

	mu   sync.Mutex
	sums map[string]sum // by environment
}

type sum struct{ phases, acquisitions, readers, permits int }

// add counts a phase.
func (r *record) add(environment string, v *faults.Verdict) {
	readers, permits := v.History.Joins()
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sums[environment]
	r.sums[environment] = sum{s.phases + 1, s.acquisitions + len(v.History.Spans), s.readers + readers, s.permits + permits}
}

// finish fails t if storms never had two readers, or two permits, at once.
func (r *record) finish(t *testing.T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range environment.All() {
		const many = 300 // acquisitions that only storms reach
		s := r.sums[a.Name]
		t.Logf("%s: %d phases, %d acquisitions", a.Name, s.phases, s.acquisitions)
		if s.acquisitions > many && (a.Readers && s.readers == 0 || a.Permits && s.permits == 0) {
			t.Errorf("of %d acquisitions on %s, %d readers joined another, and %d permits were granted beside another: the storms do not test them",
				s.acquisitions, a.Name, s.readers, s.permits)
		}
	}
}
