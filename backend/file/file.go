package file

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/lockport/lockport/driver"
)

// Backend claims names with flock(2) on files in one folder. It also implements driver.Inspector and driver.Checker. All methods may be called
// concurrently.
type Backend struct {
	mu      sync.Mutex // held for a whole attempt, which never waits
	dir     folder
	claims  map[string]*claim // by owner: those granted, and those between two attempts
	timer   *time.Timer       // runs checkFiles; nil: nothing is held
	touched time.Time         // when held files last got the current time
	pruning sync.WaitGroup
}

var _ interface {
	driver.Backend
	driver.Inspector
	driver.Checker
} = (*Backend)(nil)

var capabilities = driver.Capabilities{
	Backend:       "file",
	Ends:          driver.EndsProcess,
	Token:         driver.TokenFailover,
	Fair:          driver.FairNone,
	Wake:          driver.WakePoll,
	Failover:      driver.FailoverNone,
	Prompt:        true,
	Queue:         hasTurnstile,
	Shared:        hasTurnstile, // without it, readers could keep writers out for ever
	Permits:       true,
	RemovalNotice: func(time.Duration) time.Duration { return 2 * watchPeriod },
}

// Capabilities implements driver.Backend.
func (b *Backend) Capabilities() driver.Capabilities { return capabilities }

// begin returns why a call cannot be carried out. For a claim, the caller holds mu, as Abandon does: if its context has ended by then, it has no
// effect.
func (b *Backend) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	return b.dir.prepare()
}

func (b *Backend) path(file string) string { return filepath.Join(b.dir.path, file) }

// Abandon implements driver.Backend.
func (b *Backend) Abandon(_ context.Context, req driver.Request) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.claims[req.Owner]; c != nil {
		b.end(c)
	}
	return nil
}

// Close implements driver.Backend: it unlocks all held files, as the end of the process would.
func (b *Backend) Close() error {
	b.mu.Lock()
	for _, c := range b.claims {
		b.end(c)
	}
	b.mu.Unlock()
	b.pruning.Wait()
	return nil
}
