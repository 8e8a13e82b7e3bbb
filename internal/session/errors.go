package session

import (
	"errors"
	"fmt"
	"strings"

	"github.com/lockport/lockport/driver"
)

// Why the engine ended a session or a claim.
var (
	errClosed   = errors.New("the backend is closed")
	errIdle     = errors.New("the session was idle too long to be trusted")
	errCanceled = errors.New("the wait was abandoned")
	errEnding   = errors.New("the session that requested the lock has not ended at the server yet")
	errReleased = errors.New("the lock was released")
	errGone     = errors.New("the lock was gone before its release")
)

// ErrReadOnly means that the server accepts no writes. It is a replica, perhaps a primary that was replaced. A session with this in an Op.Err ends.
var ErrReadOnly = fmt.Errorf("%w: %s", driver.ErrUnavailable, readOnly)

const readOnly = "the server is read-only, as a replica is, and its locks exclude nobody elsewhere: connect to the primary, not a proxy that splits reads"

// Refuse returns err as driver.Checker does. It refuses a read-only server: there is no fail-over to wait for.
func Refuse(err error) error {
	if errors.Is(err, ErrReadOnly) {
		return fmt.Errorf("%w: %s", driver.ErrRefused, readOnly)
	}
	return err
}

// classOf returns the class of package driver that err matches, or nil.
func classOf(err error) error {
	for _, class := range []error{driver.ErrHeld, driver.ErrLost, driver.ErrUnavailable, driver.ErrRefused, driver.ErrUnknown} {
		if errors.Is(err, class) {
			return class
		}
	}
	return nil
}

// Classified reports whether err is nil or has a class of package driver.
func Classified(err error) bool { return err == nil || classOf(err) != nil }

// OneLine returns text without line breaks.
func OneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// of gives err, on one line, the given class and no other.
func of(class, err error) error {
	switch classOf(err) {
	case class:
		return err
	case nil:
		return fmt.Errorf("%w: %w", class, driver.OneLine(err))
	}
	return fmt.Errorf("%w: %v", class, err)
}

func unavailable(err error) error { return of(driver.ErrUnavailable, err) }
func unknown(err error) error     { return of(driver.ErrUnknown, err) }

// lost returns the loss of a claim whose session has ended.
func lost(cause error) error {
	return of(driver.ErrLost, fmt.Errorf("its session with the server has ended: %w", cause))
}
