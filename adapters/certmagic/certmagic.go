// Package certmagiclock locks the work of github.com/caddyserver/certmagic with a lockport.Locker. Its Storage wraps another one, which keeps
// the certificates.
//
// # Guarantees
//
//   - Of all processes with the same lock server, one at a time obtains or renews a certificate, as far as the backend promises exclusion.
//   - Lock waits until its context ends. TryLock does not wait.
//   - A held lock is renewed, also while certmagic waits hours between two attempts. When the process dies, its locks become free within their TTL.
//   - RenewLockLease returns nil only if the lock is held, or was lost and is acquired again.
//
// # Non-guarantees
//
//   - certmagic does not notice a loss during an attempt: two processes may then request the same certificate. The wrapped Storage keeps the
//     one stored last. Unlock returns the loss, which certmagic logs.
package certmagiclock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/lockport/lockport"
)

// Storage is a certmagic.Storage that locks with lockport. It also implements certmagic.TryLocker and certmagic.LockLeaseRenewer. The wrapped
// Storage does everything but locks. Safe for concurrent use.
type Storage struct {
	certmagic.Storage
	locker lockport.Locker
	opts   []lockport.AcquireOption
	jobs   sync.Map // of name to *job
}

// job is certmagic's work under a name, from Lock to Unlock. Unlock does not tell which job calls. So this process has one of a name at a time, also
// after the job has lost its lock.
type job struct {
	lock atomic.Pointer[lockport.Lock] // nil: not acquired yet, or being released
	over chan struct{}                 // closed at the end
}

// New wraps inner. It acquires locks from locker, with opts, under certmagic's names, such as "issue_cert_example.com". You close locker.
// Jobs of one name take turns in this process, whatever opts say (Permits, Shared, Reenter).
func New(inner certmagic.Storage, locker lockport.Locker, opts ...lockport.AcquireOption) *Storage {
	return &Storage{Storage: inner, locker: locker, opts: opts}
}

// String describes the wrapped Storage, which may hide its password so. certmagic logs it.
func (s *Storage) String() string {
	if inner, ok := s.Storage.(fmt.Stringer); ok {
		return inner.String()
	}
	return fmt.Sprintf("%T", s.Storage)
}

// Lock waits for the lock until ctx ends. Its errors are those of lockport.Locker.Acquire. While another job of this process has name, Close of the
// lockport.Locker does not end the wait.
func (s *Storage) Lock(ctx context.Context, name string) error { return s.begin(ctx, name, true) }

// TryLock makes one attempt. It returns false without an error if another client, or another job of this process, has the lock.
func (s *Storage) TryLock(ctx context.Context, name string) (bool, error) {
	err := s.begin(ctx, name, false)
	if errors.Is(err, lockport.ErrHeld) {
		return false, nil
	}
	return err == nil, err
}

// begin acquires the lock after the end of this process's earlier job. wait: it waits for that, and for the lock, until ctx ends.
func (s *Storage) begin(ctx context.Context, name string, wait bool) (err error) {
	j, acquire := &job{over: make(chan struct{})}, s.locker.TryAcquire
	if wait {
		acquire = s.locker.Acquire
	}
	for earlier, found := s.jobs.LoadOrStore(name, j); found; earlier, found = s.jobs.LoadOrStore(name, j) {
		if !wait {
			return lockport.ErrHeld
		}
		select {
		case <-earlier.(*job).over:
		case <-ctx.Done():
			return fmt.Errorf("lockport: another job of this process has %q: %w: %w", name, lockport.ErrHeld, ctx.Err())
		}
	}
	var lock *lockport.Lock
	defer func() {
		if lock == nil { // an error, or a panic of a hook
			s.end(name, j)
		}
	}()
	lock, err = acquire(ctx, name, s.opts...)
	j.lock.Store(lock)
	return err
}

func (s *Storage) end(name string, j *job) {
	s.jobs.Delete(name)
	close(j.over)
}

// job returns the job of name. It has no lock if there is none.
func (s *Storage) job(name string) *job {
	if j, ok := s.jobs.Load(name); ok {
		return j.(*job)
	}
	return new(job)
}

func notLocked(name string) error { return fmt.Errorf("lockport: %q is not locked", name) }

// Unlock releases the lock. Its errors are those of lockport.Lock.Release: lockport.ErrLost means that the lock did not protect the work to its end.
func (s *Storage) Unlock(ctx context.Context, name string) error {
	j := s.job(name)
	lock := j.lock.Swap(nil)
	if lock == nil {
		return notLocked(name)
	}
	defer s.end(name, j)
	return lock.Release(ctx)
}

// RenewLockLease returns nil if the lock is held, by the clock: lockport renews it, whatever the duration. If the lock was lost, it makes one
// attempt to acquire it again, and fails if another client has it. certmagic calls it at the start of an attempt, and then checks
// whether another client has done the work.
func (s *Storage) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	j := s.job(name)
	lock := j.lock.Load()
	if lock == nil {
		return notLocked(name)
	}
	lost := lock.Err()
	if lost == nil {
		return nil
	}
	again, err := s.locker.TryAcquire(ctx, name, s.opts...)
	if err != nil {
		return fmt.Errorf("%w; not acquired again: %w", lost, err)
	}
	if !j.lock.CompareAndSwap(lock, again) { // Unlock by certmagic.CleanUpOwnLocks
		_ = again.Release(ctx) // what fails, the client repeats in the background
		return notLocked(name)
	}
	return nil
}
