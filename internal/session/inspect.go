package session

import (
	"context"
	"fmt"
	"slices"

	"github.com/lockport/lockport/driver"
)

// Holder is the holder of a lock or of a permit, as the server shows it.
type Holder struct {
	driver.Status
	Key     Key
	Session int64 // the server's number of its session
}

// Looker looks at locks over a connection that holds none.
type Looker interface {
	// Find returns who holds the lock key of name, or if nobody does, its permits; and how many wait, as in driver.Status.
	Find(ctx context.Context, name string, key Key) (holders []Holder, waiters int, err error)
	// Others describes the other locks of h's session.
	Others(ctx context.Context, h Holder) (*driver.SharedSessionError, error)
	// End ends h's session if it still has the lock: since Find, another may have got it. ErrLost: it does not have it.
	End(ctx context.Context, h Holder) error
}

// StatusOf makes the status of a name from its holders. waiters: see driver.Status.
func StatusOf(name string, waiters int, holders []Holder) driver.Status {
	st := driver.Status{Name: name, Waiters: waiters}
	for i, h := range holders {
		h.Name, h.Waiters = name, waiters
		if i == 0 {
			st = h.Status
		} else {
			st.Others = append(st.Others, h.Status)
		}
	}
	return st
}

// Inspect is that of driver.Inspector.
func (b *Backend) Inspect(ctx context.Context, name string) (st driver.Status, err error) {
	err = b.look(ctx, name, func(_ Looker, holders []Holder, waiters int) error {
		st = StatusOf(name, waiters, holders)
		return nil
	})
	return st, err
}

// look runs f with what it finds out about name.
func (b *Backend) look(ctx context.Context, name string, f func(l Looker, holders []Holder, waiters int) error) error {
	key, err := b.o.Layout.Key(name)
	if err != nil {
		return err
	}
	return b.o.Look(ctx, func(l Looker) error {
		holders, waiters, err := l.Find(ctx, name, key)
		if err != nil {
			return err
		}
		return f(l, holders, waiters)
	})
}

// Break implements driver.Breaker. The server can only end a session with all its locks. If there are or may be others, Break refuses with a
// *driver.SharedSessionError.
func (b *Backend) Break(ctx context.Context, name, owner string) error {
	return b.endSession(ctx, name, owner, false)
}

// BreakSession implements driver.SessionBreaker.
func (b *Backend) BreakSession(ctx context.Context, name, owner string) error {
	return b.endSession(ctx, name, owner, true)
}

// endSession ends the session on which owner has name. all: also if it has other locks.
func (b *Backend) endSession(ctx context.Context, name, owner string, all bool) error {
	return b.look(ctx, name, func(l Looker, holders []Holder, _ int) error {
		i := slices.IndexFunc(holders, func(h Holder) bool { return h.Owner == owner })
		if i < 0 {
			return fmt.Errorf("%w: %q does not have it", driver.ErrLost, owner)
		}
		others, err := l.Others(ctx, holders[i])
		switch {
		case err != nil:
			return err
		case others.Others != 0 && !all:
			return others
		}
		return l.End(ctx, holders[i])
	})
}
