package driver

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Error classes. Each driver error matches exactly one of these with errors.Is, except that ErrInvalidOption comes with ErrRefused. It wraps the
// cause, without passwords. An error that matches none counts as ErrUnknown. lockport exports the same values, except ErrUnknown.
var (
	// ErrHeld: another owner has the name.
	ErrHeld = errors.New("lock is held")
	// ErrLost: the claim was granted and is known to be gone.
	ErrLost = errors.New("lock was lost")
	// ErrUnavailable: the server cannot be reached or cannot serve now; the request certainly had no effect.
	ErrUnavailable = errors.New("lock server is unavailable")
	// ErrRefused: the server refuses (authentication, privilege, configuration); the request certainly had no effect
	// and will have none until its configuration changes.
	ErrRefused = errors.New("lock server refused")
	// ErrInvalidOption comes with ErrRefused: the request cannot be met, such as a TTL of a century, or contradicts those of other clients, such as
	// another number of permits.
	ErrInvalidOption = errors.New("invalid option")
	// ErrUnknown: the request was sent, or may have been, and its outcome is not known.
	ErrUnknown = errors.New("outcome unknown")
)

// OneLine is err with its text on one line. Servers and client libraries have errors of several.
func OneLine(err error) error { return oneLine{err} }

type oneLine struct{ error }

func (e oneLine) Error() string { return strings.Join(strings.Fields(e.error.Error()), " ") }
func (e oneLine) Unwrap() error { return e.error }

// OtherPermits is the error of a claim that gives a name ours permits while its holders give it theirs. It matches ErrRefused and ErrInvalidOption.
func OtherPermits(theirs, ours int) error {
	return fmt.Errorf("%w: %w: others use %d permits of the name, not %d: use one number everywhere", ErrRefused, ErrInvalidOption, theirs, ours)
}

// HeldError is ErrHeld with what the driver knows about the holder, and about when to try again.
type HeldError struct {
	// ExpiresIn is how long the present claim lasts from now if its holder does nothing more. The client tries again then. 0: unknown, or it does not
	// expire.
	ExpiresIn time.Duration
	// Poll, if positive, is the longest pause before the client tries again. The release may not be announced (a foreign holder, no notification), or
	// a notification may be lost. Default: 250 ms where Capabilities.Wake polls, otherwise 1 s.
	Poll time.Duration

	// Holder is what the server's answer said about the holder, as Inspect would; zero if unknown. The client sets Name, Held and Waiters itself, and
	// Expires if ExpiresIn is positive.
	Holder Status
}

// Error implements error.
func (e *HeldError) Error() string {
	if e.ExpiresIn > 0 {
		return fmt.Sprintf("%v (for at most %v unless renewed)", ErrHeld, e.ExpiresIn.Round(time.Millisecond))
	}
	return ErrHeld.Error()
}

// Is makes errors.Is(err, ErrHeld) true.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }
