// Package measure has the scenarios for measuring locks: the uncontended cycle, contention, hand-off, takeover after SIGKILL, waiters, and held
// locks. Worker processes, started from this binary, open a [library.Client]. This separates the costs of two libraries and lets several processes
// contend for one name. All processes read one clock, the machine's.
package measure

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/conformance/library"
	"github.com/lockport/lockport/internal/lab/servers"
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

// Open opens lockport at a URL. hold has options for each hold: readers, for instance.
func Open(ctx context.Context, rawURL string, ttl time.Duration, hold []lockport.AcquireOption, options ...lockport.Option) (library.Client, error) {
	client, err := lockport.Open(ctx, rawURL, append(options, lockport.TTL(ttl), lockport.Logger(nil))...)
	if err != nil {
		return library.Client{}, err
	}
	return library.Client{Close: client.Close, Take: func(ctx context.Context, c library.Claim) (*library.Hold, error) {
		acquire := client.TryAcquire
		if c.Wait {
			acquire = client.Acquire
		}
		lock, err := acquire(ctx, c.Name, hold...)
		if err != nil {
			return nil, err
		}
		return &library.Hold{Release: lock.Release}, nil
	}}, nil
}

// release ends a hold.
type release = func(ctx context.Context) error

// take takes a name. It waits until ctx ends, if wait is set and the library can wait. Some libraries notice late that ctx has ended.
func (m *measurer) take(ctx context.Context, name string, wait bool) (release, error) {
	held, err := m.client.Take(ctx, library.Claim{Name: name, TTL: m.config.TTL, Wait: wait})
	if err != nil {
		return nil, err
	}
	if m.config.Loop && held.Renew != nil {
		return renewing(held, m.config.TTL), nil
	}
	return held.Release, nil
}

// renewing runs the renewal loop that a user of the library would write. It renews the hold at a third of the TTL until the hold is released.
func renewing(held *library.Hold, ttl time.Duration) release {
	ctx, stop := context.WithCancel(context.Background())
	var loop sync.WaitGroup
	loop.Go(func() {
		for tick := time.NewTicker(ttl / 3); ; {
			select {
			case <-tick.C:
				_, _ = held.Renew(ctx) // the next tick tries again
			case <-ctx.Done():
				return
			}
		}
	})
	return func(ctx context.Context) error {
		stop()
		loop.Wait()
		return held.Release(ctx)
	}
}

// Servers are the servers to measure. The caller must Close them.
type Servers struct {
	URL   string
	Close func() error
}

// Start returns a function that starts servers with o. If a program is not installed, the error is a *servers.NotInstalled.
func Start[S interface {
	URL() string
	Close() error
}, O any](start func(context.Context, O) (S, error), o O) func(context.Context) (*Servers, error) {
	return func(ctx context.Context) (*Servers, error) {
		s, err := start(ctx, o)
		if err != nil {
			return nil, err
		}
		return &Servers{s.URL(), s.Close}, nil
	}
}

// StartFolder makes a folder for locks that are files. Close removes it.
func StartFolder(context.Context) (*Servers, error) {
	folder, err := servers.Folder("measured")
	return &Servers{"file://" + folder, func() error { return os.RemoveAll(folder) }}, err
}
