// Package measure holds the scenarios by which locks are measured: the uncontended cycle, contention, hand-off, takeover after kill -9, waiters, held locks,
// and the gap when a server is lost. A [Locker] is opened in worker processes, started from this same binary. So the costs of two libraries stay apart, and
// several processes can want one name. All processes read one clock, that of the machine.
package measure

import (
	"context"
	"time"

	"github.com/lockport/lockport"
)

// Config says what a worker opens.
type Config struct {
	URL string
	TTL time.Duration
	// Family and Library choose among the libraries that the program knows.
	Family, Library string
	// Loop starts a renewal loop for each hold where users of the library must write one. It renews at a third of the TTL.
	Loop bool
}

// Locker is an open lock library. Its functions are safe for concurrent use.
type Locker struct {
	// Acquire waits for name until ctx ends, if wait is set and the library can wait. Otherwise it makes one attempt, and returns lockport.ErrHeld for a name that is held.
	// Some libraries notice late that ctx has ended.
	Acquire func(ctx context.Context, name string, wait bool) (Release, error)
	// Close is called when nothing is held any more.
	Close func() error
}

// Release ends a hold.
type Release func(ctx context.Context) error

// Open opens lockport on c.URL.
func Open(ctx context.Context, c Config, options ...lockport.Option) (Locker, error) {
	return OpenFor(ctx, c, nil, options...)
}

// OpenFor is Open for holds with some options: readers, for instance.
func OpenFor(ctx context.Context, c Config, holds []lockport.AcquireOption, options ...lockport.Option) (Locker, error) {
	client, err := lockport.Open(ctx, c.URL, append(options, lockport.TTL(c.TTL), lockport.Logger(nil))...)
	if err != nil {
		return Locker{}, err
	}
	return Locker{Close: client.Close, Acquire: func(ctx context.Context, name string, wait bool) (Release, error) {
		acquire := client.TryAcquire
		if wait {
			acquire = client.Acquire
		}
		lock, err := acquire(ctx, name, holds...)
		if err != nil {
			return nil, err
		}
		return lock.Release, nil
	}}, nil
}
