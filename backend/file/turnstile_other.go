//go:build !linux

package file

import "os"

// hasTurnstile is false: these systems have no locks of descriptors beside those of flock(2). Waiters have no order.
const hasTurnstile = false

func takeTurnstile(*os.File) bool    { return false }
func leaveTurnstile(*os.File)        {}
func isTurnstileTaken(*os.File) bool { return false }
