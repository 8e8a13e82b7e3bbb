package memorytest

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/driver"
)

// Backend is a [memory.Backend] with faults between it and its server. All methods may be called concurrently.
type Backend struct {
	*Faults // never nil
	*memory.Backend

	cancelCalls context.CancelFunc // ends the calls under way
}

// NewBackend returns a client of server, for lockport.New. nil: a new server, or faults of its own.
func NewBackend(server *memory.Server, faults *Faults) *Backend {
	if faults == nil {
		faults = new(Faults)
	}
	open, cancelCalls := context.WithCancel(context.Background())
	return &Backend{faults, memory.NewBackend(memory.Options{Server: server, Network: &network{faults, open}}), cancelCalls}
}

// Close implements driver.Backend. This client's holds last until their TTL has passed; its waiting claims end, and its callbacks are not called any
// more.
func (b *Backend) Close() error {
	b.cancelCalls()
	return b.Backend.Close()
}

// Check implements driver.Checker.
func (b *Backend) Check(ctx context.Context) ([]driver.Notice, error) {
	notices, err := b.Backend.Check(ctx)
	if errors.Is(err, driver.ErrUnknown) { // Check changes nothing
		err = fmt.Errorf("%w: no answer: %w", driver.ErrUnavailable, cmp.Or(ctx.Err(), errBroken))
	}
	return notices, err
}
