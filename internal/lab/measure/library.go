// Package measure has the scenarios by which locks are measured: the uncontended cycle, own names, contention, hand-off, takeover after kill -9, waiters,
// held locks, and the gap when a server is lost. A library takes part by implementing [Locker]. It runs in worker processes, started from this same binary,
// so that what one library costs is not another's and several processes can want one name. All of them read one clock, that of the machine.
package measure

import (
	"context"
	"errors"
	"time"
)

// Config says what a worker opens.
type Config struct {
	URL string
	TTL time.Duration
	// Family and Library choose among the libraries that the program knows.
	Family  string `json:",omitempty"`
	Library string `json:",omitempty"`
	// Loop starts a renewal loop for each hold, at a third of the TTL, where users of the library must write one.
	Loop bool `json:",omitempty"`
	// Pings says that bare round trips will be made: the Locker implements Pinger where it can.
	Pings bool `json:",omitempty"`
}

// Locker takes locks. Safe for concurrent use.
type Locker interface {
	// Acquire waits for name, where the library waits, until ctx ends. Some libraries notice that late.
	Acquire(ctx context.Context, name string) (Hold, error)
	// Try makes one attempt. What somebody else holds is ErrHeld.
	Try(ctx context.Context, name string) (Hold, error)
	// Close is called when nothing is held any more.
	Close() error
}

// Pinger is a Locker that can make a bare round trip to its server, as a unit in which to tell what locks cost.
type Pinger interface {
	// Question says what is asked, such as "PING"; empty: this Locker cannot ping.
	Question() string
	Ping(ctx context.Context) error
}

// Hold is a lock that is held.
type Hold interface {
	Release(ctx context.Context) error
}

// ErrHeld is returned by Try for a name that is held.
var ErrHeld = errors.New("it is held by somebody else")
