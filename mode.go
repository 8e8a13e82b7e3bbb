package lockport

import (
	"fmt"

	"github.com/lockport/lockport/driver"
)

// mode is how a hold shares its name.
type mode struct {
	shared  bool  // with others that share it
	permits int32 // if positive, with fewer than this number of others

	attached *ticket // of the detached hold to take over, which has its own queue; nil: none
}

// several reports whether more than one claim of the name may be held at a time.
func (m mode) several() bool { return m.shared || m.permits > 0 }

// Shared acquires the name as a reader. Any number of readers hold it together, never with a writer (a caller without Shared). Neither
// starves: a waiting writer is served before later readers, but for up to 16 that join readers of their own Client. Readers of a Client with one TTL
// usually share a claim at the server, and its token; a later writer's token is greater. Backends without readers fail with errors.ErrUnsupported:
// see Capabilities.Shared.
func Shared() AcquireOption {
	return acquireOption(func(a *acquisition) error { a.shared = true; return nil })
}

// Permits acquires one of n permits of the name, from 1 to driver.MaxPermits: all processes together hold at most n. Every caller must give the same
// n for a name; if the server can detect another n, that is an error (ErrInvalidOption). The permits of a name and its lock are independent. Backends
// without permits fail with errors.ErrUnsupported: see Capabilities.Permits.
func Permits(n int) AcquireOption {
	return acquireOption(func(a *acquisition) error {
		if n < 1 || n > driver.MaxPermits {
			return fmt.Errorf("%w: %d permits; it must be 1 to %d", ErrInvalidOption, n, driver.MaxPermits)
		}
		a.permits = int32(n)
		return nil
	})
}
