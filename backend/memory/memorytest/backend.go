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

	hangUp context.CancelFunc // ends the calls under way
}

// NewBackend returns a client of server, for lockport.New. A nil server is a new one, nil faults are its own.
func NewBackend(server *memory.Server, faults *Faults) *Backend {
	if faults == nil {
		faults = new(Faults)
	}
	open, hangUp := context.WithCancel(context.Background())
	return &Backend{faults, memory.NewBackend(memory.Options{Server: server, Network: &network{faults, open}}), hangUp}
}

// Close implements driver.Backend. The claims that this client holds last until their TTL has passed, those that wait are gone,
// and its callbacks are not called any more.
func (b *Backend) Close() error {
	b.hangUp()
	return b.Backend.Close()
}

// Check implements driver.Checker.
func (b *Backend) Check(ctx context.Context) ([]driver.Notice, error) {
	notices, err := b.Backend.Check(ctx)
	if errors.Is(err, driver.ErrUnknown) { // it would have changed nothing
		err = fmt.Errorf("%w: no answer: %w", driver.ErrUnavailable, cmp.Or(ctx.Err(), errBroken))
	}
	return notices, err
}
