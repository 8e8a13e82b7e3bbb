package lockport

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lockport/lockport/driver"
)

// Test for these errors with errors.Is. Every error of this package about a lock is an *Error. It wraps one of these, errors.ErrUnsupported, or the
// context's error. If the context ended a wait, it also matches the reason for the wait. An error of Break may wrap driver.ErrUnknown.
var (
	// ErrHeld: another client holds the lock, or this Locker holds or is acquiring it.
	ErrHeld = driver.ErrHeld
	// ErrLost: the hold ended, although its holder did not end it. Work after Lost was closed may have overlapped another holder's. Earlier work has
	// not, unless the backend's page says otherwise.
	ErrLost = driver.ErrLost
	// ErrUnavailable: the lock server cannot be reached or cannot serve now. After Acquire and TryAcquire nothing is held. If the outcome of a request is
	// unknown, the client undoes it in the background until it certainly has no effect. Release, Detach and Attach say what it means there.
	ErrUnavailable = driver.ErrUnavailable
	// ErrRefused: the lock server refuses: password, privilege, configuration. Trying again does not help.
	ErrRefused = driver.ErrRefused
	// ErrReleased: Release or Detach ended the hold.
	ErrReleased = errors.New("lock was released")
	// ErrClosed: the Locker was closed.
	ErrClosed = errors.New("locker is closed")
	// ErrInvalidName: a name must be valid UTF-8 of 1 to 1,024 bytes.
	ErrInvalidName = errors.New("invalid lock name")
	// ErrInvalidOption: an option is invalid, or contradicts another.
	ErrInvalidOption = driver.ErrInvalidOption
	// ErrMaxHold is the reason for a loss: MaxHold has passed. It comes with ErrLost.
	ErrMaxHold = errors.New("MaxHold has passed")
	// ErrSilence is the reason for a loss: the server was silent, or this process was paused. It comes with ErrLost.
	ErrSilence = errors.New("no renewal was confirmed in time")
)

// errHeldHere is ErrHeld without a request.
var errHeldHere = fmt.Errorf("%w: this process holds or is acquiring it", ErrHeld)

// errNoAnswer: the backend has not returned.
var errNoAnswer = errors.New("no answer")

// HeldError is ErrHeld with what the server's answer said about the holder. errors.As finds it in errors of Acquire and TryAcquire, unless this
// Client holds or is acquiring the name. Its fields are those of Inspect, without another request: unknown ones are zero, and Waiters is -1. Use TryAcquire, not
// Expires, to test whether the lock is free again.
type HeldError struct {
	Status
	err error
}

// newHeldError makes a HeldError of err, which a driver returned for name.
func newHeldError(name string, err error) *HeldError {
	var holder driver.Status
	var he *driver.HeldError
	if errors.As(err, &he) {
		if holder = he.Holder; he.ExpiresIn > 0 {
			holder.Expires = time.Now().Add(he.ExpiresIn)
		}
	}
	holder.Name, holder.Held, holder.Waiters = name, true, -1
	return &HeldError{Status: newStatus(holder), err: err}
}

// Error implements error.
func (e *HeldError) Error() string {
	if e.PID == 0 {
		return e.err.Error()
	}
	return fmt.Sprintf("%v: by %s, process %d on %s", e.err, e.Label, e.PID, e.Host)
}

// Unwrap returns the wrapped error, which matches ErrHeld.
func (e *HeldError) Unwrap() error { return e.err }

// Error says which operation on which lock of which backend failed.
type Error struct {
	Op      string // "acquire", "try", "release", "hold", "detach", "attach", "inspect", "list", "break", "open" (Open, Check), "new", "close"
	Backend string // "redis"
	Name    string // the lock's name; empty where no lock is concerned
	Err     error
}

// Error implements error.
func (e *Error) Error() string {
	what := e.Op
	if e.Name != "" {
		what += " " + quoteName(e.Name)
	}
	if e.Backend != "" {
		what += " (" + e.Backend + ")"
	}
	return "lockport: " + what + ": " + driver.OneLine(e.Err).Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// InvalidOption wraps err for the New of a backend, unless it is wrapped already: an *Error that matches ErrInvalidOption.
func InvalidOption(backend string, err error) error {
	if _, wrapped := err.(*Error); wrapped {
		return err
	}
	if !errors.Is(err, ErrInvalidOption) {
		err = fmt.Errorf("%w: %w", ErrInvalidOption, err)
	}
	return &Error{Op: "new", Backend: backend, Err: err}
}

// join is errors.Join on one line.
func join(errs ...error) (all error) {
	for _, err := range errs {
		switch {
		case all == nil:
			all = err
		case err != nil:
			all = fmt.Errorf("%w; %w", all, err)
		}
	}
	return all
}

// as is err as an error of class, whose text it does not repeat.
func as(class, err error) error {
	return fmt.Errorf("%w: %s", class, strings.TrimPrefix(err.Error(), class.Error()+": "))
}

// quoteName quotes a name for a one-line error, and shortens a long one.
func quoteName(name string) string {
	const limit = 80
	if len(name) > limit {
		name = strings.ToValidUTF8(name[:limit], "") + "…"
	}
	return strconv.Quote(name)
}
