package leader

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockport/lockport"
)

// Option configures a call of Run.
type Option func(*candidate) error

// candidate is one call of Run.
type candidate struct {
	fn          Func
	least, most time.Duration
	grace       time.Duration
	observe     func(Change)
}

// The pauses of Backoff by default.
const (
	DefaultLeast = time.Second
	DefaultMost  = 30 * time.Second
)

// Backoff sets the pause between a term, or a failed campaign, and the next campaign. The pause is least after fn returned nil, and after a term that
// lasted for most or longer. It doubles with every failure in a row, up to most. A random part of up to a half is then cut off. Default:
// DefaultLeast, 1 s, and DefaultMost, 30 s. least must be positive, and most at least least (lockport.ErrInvalidOption).
func Backoff(least, most time.Duration) Option {
	return func(c *candidate) error {
		if least <= 0 || most < least {
			return fmt.Errorf("leader: %w: Backoff from %v to %v", lockport.ErrInvalidOption, least, most)
		}
		c.least, c.most = least, most
		return nil
	}
}

// Grace ends fn's context this long before the lock's Deadline, so that fn has time to return before another process can lead. Default: 0, which
// leaves the margin of the lock, TTL/20 + 10 ms. A server that is silent for the TTL less Grace ends the term. Renewals come after a third of the
// TTL, so Grace must be at most half of it; otherwise Run returns lockport.ErrInvalidOption at the first term. Grace has no effect on locks without a
// Deadline (the backend file). The end of MaxHold is a Deadline too, so a MaxHold must be longer than d plus an eighth of the TTL. A term that is
// granted with little of its validity left begins once it is renewed, at most d later.
func Grace(d time.Duration) Option {
	return func(c *candidate) error {
		if d < 0 {
			return fmt.Errorf("leader: %w: Grace is %v; it cannot be negative", lockport.ErrInvalidOption, d)
		}
		c.grace = d
		return nil
	}
}

// ErrGrace is the cause of a context that Grace ended: the server is silent, the end of MaxHold is near, or Grace is too long for the validity that
// the server grants, as a ZooKeeper does whose maxSessionTimeout is below the TTL.
var ErrGrace = errors.New("leader: no more than Grace is left until the lock's Deadline")

// errGraceTooLong ends Run.
var errGraceTooLong = fmt.Errorf("leader: %w: Grace is longer than half of the TTL", lockport.ErrInvalidOption)
