// Package measure has the scenarios for measuring locks: the uncontended cycle, contention, hand-off, takeover after SIGKILL, waiters, and held
// locks. Worker processes, started from this binary, open a [Locker]. This separates the costs of two libraries and lets several processes contend
// for one name. All processes read one clock, the machine's.
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
	// Family and Library select one of the libraries that the program knows.
	Family, Library string
	// Loop starts a renewal loop for each hold if the library leaves that to its users. It renews at a third of the TTL.
	Loop bool
}

// Locker is an open lock library. Its functions are safe for concurrent use.
type Locker struct {
	// Acquire waits for name until ctx ends, if wait is set and the library can wait. Otherwise it makes one attempt, and returns lockport.ErrHeld
	// if the name is held. Some libraries notice late that ctx has ended.
	Acquire func(ctx context.Context, name string, wait bool) (Release, error)
	// Close is called when all holds have ended.
	Close func() error
}

// Release ends a hold.
type Release func(ctx context.Context) error

// Open opens lockport on c.URL. hold has options for each hold: readers, for instance.
func Open(ctx context.Context, c Config, hold []lockport.AcquireOption, options ...lockport.Option) (Locker, error) {
	client, err := lockport.Open(ctx, c.URL, append(options, lockport.TTL(c.TTL), lockport.Logger(nil))...)
	if err != nil {
		return Locker{}, err
	}
	return Locker{Close: client.Close, Acquire: func(ctx context.Context, name string, wait bool) (Release, error) {
		acquire := client.TryAcquire
		if wait {
			acquire = client.Acquire
		}
		lock, err := acquire(ctx, name, hold...)
		if err != nil {
			return nil, err
		}
		return lock.Release, nil
	}}, nil
}
