package exhibits

import (
	"slices"
	"time"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
)

// Exhibit is a lock that is broken in one way.
type Exhibit struct {
	// Name is what the fault is called.
	Name string
	// Is says in a sentence what is broken.
	Is string
	// Sees is what the reason of the failure must contain.
	Sees string
	// CaughtBy are the cases that must fail, by their IDs. Others may fail too.
	CaughtBy []string

	spoil func(*lock)
}

// caught are the IDs of the cases that must fail.
type caught = []string

// Config is the suite's, with x as the backend under test on a server of its own.
func (x Exhibit) Config() conformance.Config { return config(x.spoil) }

// All returns all exhibits.
func All() []Exhibit {
	return slices.Concat(claims, releases, renewals, outcomes, waits, modes, statements)
}

// Sound is the suite's Config for the lock of which the exhibits are made.
func Sound() conformance.Config { return config(func(*lock) {}) }

// Plain is Sound for a lock with none of the optional interfaces. Its waiters poll.
func Plain() conformance.Config { return config(plainly) }

// Untold is Sound for a lock whose server tells nobody that a claim has ended: holders learn it from their renewals.
func Untold() conformance.Config {
	return config(func(l *lock) {
		l.request = untold
		l.state = func(c *driver.Capabilities) { c.RemovalNotice = func(ttl time.Duration) time.Duration { return ttl } }
	})
}
