package exhibits

import (
	"slices"
	"time"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
)

// Exhibit is a lock with one fault.
type Exhibit struct {
	// Name identifies the fault.
	Name string
	// Is describes the fault in one sentence.
	Is string
	// Sees is a text that the reason of the failure must contain.
	Sees string
	// CaughtBy are the IDs of cases that must fail. Others may fail too.
	CaughtBy []string

	spoil func(*lock)
}

// caught is the type of CaughtBy.
type caught = []string

// Config returns a Config with x as the backend under test, on a new server.
func (x Exhibit) Config() conformance.Config { return config(x.spoil) }

// All returns all exhibits.
func All() []Exhibit {
	return slices.Concat(claims, releases, renewals, outcomes, waits, modes, statements)
}

// Sound returns a Config for the sound lock of which the exhibits are made.
func Sound() conformance.Config { return config(func(*lock) {}) }

// Plain is Sound without the optional interfaces. Waiters poll.
func Plain() conformance.Config { return config(plainly) }

// Untold is Sound with a server that does not report lost claims: holders learn of a loss when they renew.
func Untold() conformance.Config {
	return config(func(l *lock) {
		l.request = untold
		l.state = func(c *driver.Capabilities) { c.RemovalNotice = func(ttl time.Duration) time.Duration { return ttl } }
	})
}
