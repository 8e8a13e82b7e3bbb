package exhibits

import (
	"slices"

	"github.com/lockport/lockport/conformance"
)

// Exhibit is a lock with one fault.
type Exhibit struct {
	// Name identifies the fault.
	Name string
	// Is describes the fault in one sentence.
	Is string
	// Sees are texts that the reasons of failures must contain: one for all cases, or one for each of CaughtBy.
	Sees []string
	// CaughtBy are the IDs of cases that must fail. Others may fail too.
	CaughtBy []string

	spoil func(*lock)
}

// sees and caught are the types of Sees and CaughtBy.
type (
	sees   = []string
	caught = []string
)

// Config returns a Config with x as the backend under test, on a new server.
func (x Exhibit) Config() conformance.Config { return config(x.spoil) }

// All returns all exhibits.
func All() []Exhibit {
	return slices.Concat(claims, releases, renewals, outcomes, waits, modes, statements)
}

// Sound returns a Config for the sound lock of which the exhibits are made.
func Sound() conformance.Config { return config(func(*lock) {}) }
