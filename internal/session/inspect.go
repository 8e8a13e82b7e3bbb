package session

import (
	"fmt"
	"slices"

	"github.com/lockport/lockport/driver"
)

// Holder is the holder of a lock or of a permit, as the server shows it.
type Holder struct {
	driver.Status
	Key     Key
	Session int64 // the server's number of its session
}

// StatusOf makes the status of a name from its holders. waiters: see driver.Status.
func StatusOf(name string, waiters int, holders []Holder) driver.Status {
	st := driver.Status{Name: name, Waiters: waiters}
	for i, h := range holders {
		h.Name, h.Waiters = name, waiters
		if i == 0 {
			st = h.Status
		} else {
			st.Others = append(st.Others, h.Status)
		}
	}
	return st
}

// Break ends the session on which owner, one of holders, has its lock. Unless all is set, it refuses if others counts other locks of the session,
// or cannot count them (-1). end ends the session of a holder that still has its lock.
func Break(holders []Holder, owner string, all bool, others func(Holder) (*driver.SharedSessionError, error), end func(Holder) error) error {
	i := slices.IndexFunc(holders, func(h Holder) bool { return h.Owner == owner })
	if i < 0 {
		return fmt.Errorf("%w: %q does not have it", driver.ErrLost, owner)
	}
	shared, err := others(holders[i])
	switch {
	case err != nil:
		return err
	case shared.Others != 0 && !all:
		return shared
	}
	return end(holders[i])
}
