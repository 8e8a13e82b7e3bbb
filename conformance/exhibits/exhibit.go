// Package exhibits is a collection of broken locks. Each has one fault that real locks have. They test package conformance: a
// suite that passes a broken lock proves nothing. Do not use them for anything else.
//
// All are made of one sound lock: a client of the memory backend, behind faults like those of a network. An exhibit replaces
// one of its steps. The sound lock passes every case that needs no other process.
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
