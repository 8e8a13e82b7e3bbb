package session

import (
	"errors"
	"fmt"
	"strings"

	"github.com/lockport/lockport/driver"
)

// Why a session of ours was ended by ourselves.
var (
	errClosed    = errors.New("the backend is closed")
	errIdle      = errors.New("the session was idle for too long to be trusted")
	errCancelled = errors.New("the wait on it was given up")
	errEnding    = errors.New("the session in which the lock was asked for has not ended at the server yet")
	errGiven     = errors.New("the lock was given back")
	errTaken     = errors.New("the lock was no longer there when it was given back")
)

// classOf is the class of package driver that err matches, or nil.
func classOf(err error) error {
	for _, class := range []error{driver.ErrHeld, driver.ErrLost, driver.ErrUnavailable, driver.ErrRefused, driver.ErrUnknown} {
		if errors.Is(err, class) {
			return class
		}
	}
	return nil
}

// Classified says that err is nil, or of a class of package driver.
func Classified(err error) bool { return err == nil || classOf(err) != nil }

// OneLine is text without line breaks, as an error's is.
func OneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// of makes err one of class and of no other.
func of(class, err error) error {
	switch classOf(err) {
	case class:
		return err
	case nil:
		return fmt.Errorf("%w: %w", class, err)
	}
	return fmt.Errorf("%w: %v", class, err)
}

func unavailable(err error) error { return of(driver.ErrUnavailable, err) }
func unknown(err error) error     { return of(driver.ErrUnknown, err) }

// lost says that a claim went with its session.
func lost(cause error) error {
	return of(driver.ErrLost, fmt.Errorf("its session with the server has ended: %w", plain(cause)))
}

// plain is err, or where that has a class its text alone.
func plain(err error) error {
	if classOf(err) != nil {
		return errors.New(err.Error())
	}
	return err
}

// unsent says of a session's end that what was not sent in it had no effect.
func unsent(cause error) error {
	if errors.Is(cause, driver.ErrRefused) {
		return of(driver.ErrRefused, cause)
	}
	return unavailable(cause)
}
