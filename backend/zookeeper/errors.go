package zookeeper

import (
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/lockport/lockport/driver"
)

func unavailable(err error) error { return fmt.Errorf("%w: %w", driver.ErrUnavailable, unclassed{err}) }
func unknown(err error) error     { return fmt.Errorf("%w: %w", driver.ErrUnknown, unclassed{err}) }

// errNoAnswer marks a request that was cut off: its outcome is unknown.
var errNoAnswer = errors.New("no answer")

// explain classifies the error of a request on path; did is its verb. A missing or existing node is an answer, and has no class.
func explain(err error, did, path string) error {
	switch {
	case err == nil, oneOf(err, zk.ErrNoNode, zk.ErrNodeExists):
		return err
	case oneOf(err, zk.ErrNoServer, zk.ErrSessionExpired): // not sent, or too late
		return unavailable(err)
	case errors.Is(err, zk.ErrNoAuth):
		return fmt.Errorf("%w: the ACL does not let this user %s %s: %w; use credentials that may create, read and delete there", driver.ErrRefused, did, path, err)
	case oneOf(err, zk.ErrAuthFailed, zk.ErrInvalidACL, zk.ErrInvalidPath, zk.ErrNoChildrenForEphemerals):
		return fmt.Errorf("%w: %s %s: %w", driver.ErrRefused, did, path, err)
	default:
		return fmt.Errorf("%w: %s %s: %w: %w", driver.ErrUnknown, did, path, errNoAnswer, err)
	}
}

// withoutEffect classifies the error of a request that certainly had no effect.
func withoutEffect(err error) error {
	if err == nil || oneOf(err, driver.ErrHeld, driver.ErrUnavailable, driver.ErrRefused) {
		return err
	}
	return unavailable(err)
}

func oneOf(err error, others ...error) bool {
	for _, other := range others {
		if errors.Is(err, other) {
			return true
		}
	}
	return false
}

// unclassed hides an error's class where more, or less, is certain about the request's effect than that class says.
type unclassed struct{ error }

// Is matches everything except classes.
func (e unclassed) Is(target error) bool {
	return !oneOf(target, driver.ErrUnknown, driver.ErrUnavailable, driver.ErrRefused) && errors.Is(e.error, target)
}
