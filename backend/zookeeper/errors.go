package zookeeper

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/lockport/lockport/driver"
)

func unavailable(err error) error { return fmt.Errorf("%w: %w", driver.ErrUnavailable, err) }
func unknown(err error) error     { return fmt.Errorf("%w: %w", driver.ErrUnknown, err) }

// hadNoEffect reports that a request that failed was certainly not carried out: the server said why, or it was not sent.
func hadNoEffect(err error) bool {
	return refused(err) || oneOf(err, zk.ErrNoNode, zk.ErrNodeExists, zk.ErrSessionExpired, zk.ErrNoServer)
}

// refused reports an answer that trying again does not change.
func refused(err error) bool {
	return oneOf(err, zk.ErrNoAuth, zk.ErrInvalidACL, zk.ErrAuthFailed, zk.ErrInvalidPath, zk.ErrNoChildrenForEphemerals)
}

// connectionLost reports that a request was cut off, so that nobody knows whether it was carried out.
func connectionLost(err error) bool {
	return err != nil && !hadNoEffect(err) && !errors.Is(err, errGone) && !hasClass(err)
}

func hasClass(err error) bool {
	return oneOf(err, driver.ErrHeld, driver.ErrLost, driver.ErrUnavailable, driver.ErrRefused, driver.ErrUnknown)
}

// explain gives the error of a request on path, which did, its class. An error whose class it cannot tell is unknown.
func explain(err error, did, path string) error {
	switch {
	case err == nil || hasClass(err):
		return err
	case errors.Is(err, zk.ErrNoServer), errors.Is(err, zk.ErrSessionExpired):
		return unavailable(err)
	case errors.Is(err, zk.ErrNoAuth):
		return fmt.Errorf("%w: the ACL does not let this user %s %s: %w; give credentials that may create, read and delete there", driver.ErrRefused, did, path, err)
	case errors.Is(err, zk.ErrInvalidACL):
		return fmt.Errorf("%w: %s %s: %w; an ACL for the authenticated user needs credentials", driver.ErrRefused, did, path, err)
	case errors.Is(err, zk.ErrNoChildrenForEphemerals):
		return fmt.Errorf("%w: a node above %s is ephemeral and can have no children: %w", driver.ErrRefused, path, err)
	case refused(err):
		return fmt.Errorf("%w: %s %s: %w", driver.ErrRefused, did, path, err)
	default:
		return fmt.Errorf("%w: %s %s: %w", driver.ErrUnknown, did, path, err)
	}
}

// withoutEffect is the class of an error of a request of which it is certain that it had no effect.
func withoutEffect(err error) error {
	if oneOf(err, driver.ErrUnavailable, driver.ErrRefused) {
		return err
	}
	return unavailable(certainly{err})
}

func oneOf(err error, others ...error) bool {
	for _, other := range others {
		if errors.Is(err, other) {
			return true
		}
	}
	return false
}

// certainly is an error without its class, for where more is certain of it, or less, than that says.
type certainly struct{ error }

// Unwrap keeps what is not a class.
func (e certainly) Unwrap() error {
	switch {
	case errors.Is(e.error, context.Canceled):
		return context.Canceled
	case errors.Is(e.error, context.DeadlineExceeded):
		return context.DeadlineExceeded
	}
	return nil
}
