//go:build !linux

package file

// hasTurnstile is false: these systems have no locks of descriptors beside those of flock(2). Waiters have no order.
const hasTurnstile = false

func (*lockFile) takeTurnstile()         {}
func (*lockFile) leaveTurnstile()        {}
func (*lockFile) isTurnstileTaken() bool { return false }
