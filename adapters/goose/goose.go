// Package gooselock locks the migrations of github.com/pressly/goose/v3 with a lockport.Locker: its Locker is for goose.WithLocker.
//
// # Guarantees
//
//   - A Provider migrates while it holds the lock, and no other Provider with the same lock does, as far as the backend promises exclusion.
//   - When the process dies, the lock becomes free within its TTL.
//   - If the lock is lost, the Provider's method returns an error that matches lockport.ErrLost.
//
// # Non-guarantees
//
//   - goose does not ask a Locker between two migrations: after a loss, the remaining ones run before the method returns the error. To cancel
//     them, call the Provider in lockport.Do instead of using a Locker.
//   - HasPending and GetVersions do not lock. Status and GetDBVersion wait for the lock.
package gooselock

import (
	"context"
	"database/sql"
	"fmt"
	"sync/atomic"

	"github.com/lockport/lockport"
)

// Locker implements goose's lock.Locker. Safe for concurrent use.
type Locker struct {
	locker lockport.Locker
	name   string
	opts   []lockport.AcquireOption

	turn chan struct{} // full from Lock until Unlock, also if the lock is lost meanwhile: Unlock does not tell which Provider calls
	lock atomic.Pointer[lockport.Lock]
}

// New returns a Locker that acquires name from locker, with opts. All processes that migrate a database need the same name. You close locker.
// Providers with one Locker take turns, whatever opts say (Permits, Shared, Reenter): do not nest them.
func New(locker lockport.Locker, name string, opts ...lockport.AcquireOption) *Locker {
	return &Locker{locker: locker, name: name, opts: opts, turn: make(chan struct{}, 1)}
}

// Lock waits for the lock until ctx ends. Its errors are those of lockport.Locker.Acquire. It does not use the database. While another Provider with
// this Locker works, Close of the lockport.Locker does not end the wait.
func (l *Locker) Lock(ctx context.Context, _ *sql.DB) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("lockport: another Provider of this process has %q: %w: %w", l.name, lockport.ErrHeld, ctx.Err())
	}
	var lock *lockport.Lock
	defer func() {
		if lock == nil { // an error, or a panic of a hook
			<-l.turn
		}
	}()
	lock, err = l.locker.Acquire(ctx, l.name, l.opts...)
	l.lock.Store(lock)
	return err
}

// Unlock releases the lock. Its errors are those of lockport.Lock.Release: lockport.ErrLost means that the lock did not protect all migrations.
func (l *Locker) Unlock(ctx context.Context, _ *sql.DB) error {
	lock := l.lock.Swap(nil)
	if lock == nil {
		return fmt.Errorf("lockport: %q is not locked", l.name)
	}
	defer func() { <-l.turn }()
	return lock.Release(ctx)
}
