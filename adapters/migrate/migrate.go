// Package migratelock locks the migrations of github.com/golang-migrate/migrate/v4 with a lockport.Locker: its Driver wraps another one.
//
// # Guarantees
//
//   - A Migrate works while it holds the lock, and no other Migrate with the same lock does, as far as the backend promises exclusion.
//   - When the process dies, the lock becomes free within its TTL. If it died during a migration, the version is dirty: golang-migrate asks for Force.
//   - If the lock is lost, the next step fails with an error that matches lockport.ErrLost, and so does Unlock. The version stays dirty.
//
// # Non-guarantees
//
//   - A statement in progress is not canceled when the lock is lost or the process dies: golang-migrate gives drivers no context.
//   - The wrapped driver may lock on opening. Those for Postgres and MySQL do, with a lock of their session.
package migratelock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/golang-migrate/migrate/v4/database"

	"github.com/lockport/lockport"
)

// Driver is a database.Driver that locks with lockport. The wrapped driver provides the other methods.
type Driver struct {
	database.Driver
	locker lockport.Locker
	name   string
	wait   time.Duration
	opts   []lockport.AcquireOption
	open   context.Context // ends with Close
	close  context.CancelFunc
	locked atomic.Bool
	lock   atomic.Pointer[lockport.Lock] // set while locked
}

// New wraps inner. Lock acquires name from locker, with opts. All processes that migrate a database need the same name. You close locker.
//
// Lock waits for at most wait, which must be shorter than the Migrate's LockTimeout: golang-migrate returns after that, and a lock acquired later
// stays held until Close. Make both longer than the TTL and the longest migration; LockTimeout's default is 15 s.
func New(inner database.Driver, locker lockport.Locker, name string, wait time.Duration, opts ...lockport.AcquireOption) *Driver {
	d := &Driver{Driver: inner, locker: locker, name: name, wait: wait, opts: opts}
	d.open, d.close = context.WithCancel(context.Background())
	return d
}

// Open opens the wrapped driver, and wraps the result.
func (d *Driver) Open(url string) (database.Driver, error) {
	inner, err := d.Driver.Open(url)
	if err == nil {
		inner = New(inner, d.locker, d.name, d.wait, d.opts...)
	}
	return inner, err
}

// Close closes the wrapped driver, and then releases the lock, if it is held.
func (d *Driver) Close() error {
	d.close()
	closed := d.Driver.Close() // first: it waits for a statement that runs, and no other may begin without the lock
	switch err := d.Unlock(); {
	case err == nil, errors.Is(err, database.ErrNotLocked):
		return closed
	case closed != nil:
		return fmt.Errorf("%w; %w", closed, err)
	default:
		return err
	}
}

// Lock waits for the lock. database.ErrLocked: another client, or this Driver, has it. Its other errors are those of lockport.Locker.Acquire.
func (d *Driver) Lock() (err error) {
	if !d.locked.CompareAndSwap(false, true) {
		return database.ErrLocked
	}
	ctx, cancel := context.WithTimeout(d.open, d.wait)
	defer cancel()
	var lock *lockport.Lock
	defer func() {
		if lock == nil { // an error, or a panic of a hook
			d.locked.Store(false)
		}
	}()
	lock, err = d.locker.Acquire(ctx, d.name, d.opts...)
	if errors.Is(err, lockport.ErrHeld) {
		return fmt.Errorf("%w: %w", database.ErrLocked, err)
	}
	if d.lock.Store(lock); err == nil && d.open.Err() != nil {
		_ = d.Unlock()
		return d.open.Err()
	}
	return err
}

// Unlock releases the lock. lockport.ErrLost: the lock did not protect all migrations. database.ErrNotLocked: this Driver does not have the lock.
// Its other errors are those of lockport.Lock.Release. After any error a Migrate stays locked, but the Driver does not: give it to a new Migrate.
func (d *Driver) Unlock() error {
	lock := d.lock.Swap(nil)
	if lock == nil {
		return database.ErrNotLocked
	}
	defer d.locked.Store(false)
	return lock.Release(context.Background())
}

// guard calls f unless the lock was lost. Like other drivers, this one also works without Lock.
func (d *Driver) guard(f func() error) error {
	if lock := d.lock.Load(); lock != nil && lock.Err() != nil {
		return lock.Err()
	}
	return f()
}

// Run applies a migration, unless the lock was lost.
func (d *Driver) Run(migration io.Reader) error {
	return d.guard(func() error { return d.Driver.Run(migration) })
}

// SetVersion saves the version, unless the lock was lost.
func (d *Driver) SetVersion(version int, dirty bool) error {
	return d.guard(func() error { return d.Driver.SetVersion(version, dirty) })
}

// Drop deletes everything in the database, unless the lock was lost.
func (d *Driver) Drop() error { return d.guard(d.Driver.Drop) }
