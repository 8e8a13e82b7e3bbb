package driver

import (
	"errors"
	"fmt"
	"time"
)

// Error classes. A driver returns errors that match exactly one of the first five with errors.Is and wrap the
// cause, without passwords. An error that matches none counts as ErrUnknown. lockport exports the same values.
var (
	// ErrHeld: another owner has the name.
	ErrHeld = errors.New("lock is held by another client")
	// ErrLost: the claim was granted and is known to be gone.
	ErrLost = errors.New("lock was lost")
	// ErrUnavailable: the server cannot be reached or cannot serve now; the request certainly had no effect.
	ErrUnavailable = errors.New("lock server is unavailable")
	// ErrRefused: the server refuses (authentication, privilege, configuration); the request certainly had no effect
	// and will have none until its configuration changes.
	ErrRefused = errors.New("lock server refused")
	// ErrInvalidOption comes with ErrRefused: the request contradicts other clients' requests, such as another number of permits.
	ErrInvalidOption = errors.New("invalid option")
	// ErrUnknown: the request was sent, or may have been, and its outcome is not known.
	ErrUnknown = errors.New("outcome unknown")
)

// HeldError is ErrHeld with the driver's knowledge of when to ask again.
type HeldError struct {
	// ExpiresIn is how long from now the present claim lasts if its holder does nothing more; 0: not known, or no such
	// time. The client looks again then.
	ExpiresIn time.Duration
	// Poll, if positive, asks the client to look again after this time at the latest, because the release
	// may not be announced (a foreign holder, no notification) or as the safety net under notification.
	// Default: 250 ms where Capabilities.Wake polls, otherwise 1 s.
	Poll time.Duration

	// Holder describes the holder, as far as the server's answer did: Owner, Foreign, Token and Since, zero where it did not. The other fields
	// are not used. A driver makes no request of its own for it.
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
