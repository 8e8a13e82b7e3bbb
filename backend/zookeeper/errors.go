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

// errGone is why a claim that waited has to begin anew.
var errGone = errors.New("its node was deleted")

// connectionLost reports that a request was cut off, so that nobody knows whether it was carried out.
func connectionLost(err error) bool {
	return errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, zk.ErrNoServer) || errors.Is(err, zk.ErrClosing) ||
		errors.Is(err, zk.ErrSessionMoved)
}

// refusals are the server's answers that trying again does not change.
func refused(err error) bool {
	return errors.Is(err, zk.ErrNoAuth) || errors.Is(err, zk.ErrInvalidACL) || errors.Is(err, zk.ErrAuthFailed) ||
		errors.Is(err, zk.ErrInvalidPath) || errors.Is(err, zk.ErrNoChildrenForEphemerals)
}

// explain gives the error of a request on path, which did, its class. An error whose class it cannot tell is unknown.
func explain(err error, did, path string) error {
	switch {
	case err == nil:
		return nil
	case oneOf(err, driver.ErrHeld, driver.ErrLost, driver.ErrUnavailable, driver.ErrRefused, driver.ErrUnknown):
		return err
	case errors.Is(err, zk.ErrNoAuth):
		return fmt.Errorf("%w: the ACL does not let this user %s %s: %w; give credentials that may create, read and delete there", driver.ErrRefused, did, path, err)
	case errors.Is(err, zk.ErrInvalidACL):
		return fmt.Errorf("%w: %s %s: %w; an ACL for the authenticated user needs credentials", driver.ErrRefused, did, path, err)
	case errors.Is(err, zk.ErrNoChildrenForEphemerals):
		return fmt.Errorf("%w: a node above %s is ephemeral and can have no children: %w", driver.ErrRefused, path, err)
	case refused(err):
		return fmt.Errorf("%w: %s %s: %w", driver.ErrRefused, did, path, err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return unknown(err)
	default:
		return fmt.Errorf("%w: %s %s: %w", driver.ErrUnknown, did, path, err)
	}
}

func oneOf(err error, classes ...error) bool {
	for _, class := range classes {
		if errors.Is(err, class) {
			return true
		}
	}
	return false
}
