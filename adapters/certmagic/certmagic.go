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
	"slices"
	"sync"
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

	mu   sync.Mutex
	held map[string][]held // by name, until Unlock, the latest first; at most one per name is not lost
}

// held is a lock, and certmagic's job that has it: nil until the job's first RenewLockLease.
type held struct {
	*lockport.Lock
	job *int
}

func (h held) lost() bool { return !h.Valid() }

// New wraps inner. It acquires locks from locker, with opts, under certmagic's names, such as "issue_cert_example.com". You close locker.
func New(inner certmagic.Storage, locker lockport.Locker, opts ...lockport.AcquireOption) *Storage {
	return &Storage{Storage: inner, locker: locker, opts: opts, held: make(map[string][]held)}
}

// Lock waits for the lock until ctx ends. Its errors are those of lockport.Locker.Acquire.
func (s *Storage) Lock(ctx context.Context, name string) error {
	lock, err := s.locker.Acquire(ctx, name, s.opts...)
	if err != nil {
		return err
	}
	s.add(held{Lock: lock})
	return nil
}

// TryLock makes one attempt. It returns false without an error if another client has the lock.
func (s *Storage) TryLock(ctx context.Context, name string) (bool, error) {
	lock, err := s.locker.TryAcquire(ctx, name, s.opts...)
	if errors.Is(err, lockport.ErrHeld) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	s.add(held{Lock: lock})
	return true, nil
}

func (s *Storage) add(lock held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[lock.Name()] = slices.Insert(s.held[lock.Name()], 0, lock)
}

// take removes one of the locks of name: the latest that the first of wanted accepts, else the second and so on, else the latest.
func (s *Storage) take(name string, wanted ...func(held) bool) (held, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	locks := s.held[name]
	if len(locks) == 0 {
		return held{}, fmt.Errorf("lockport: %q is not locked", name)
	}
	i := 0
	for _, want := range slices.Backward(wanted) {
		if found := slices.IndexFunc(locks, want); found >= 0 {
			i = found
		}
	}
	lock := locks[i]
	if s.held[name] = slices.Delete(locks, i, i+1); len(locks) == 1 {
		delete(s.held, name)
	}
	return lock, nil
}

// Unlock releases the lock. Its errors are those of lockport.Lock.Release: lockport.ErrLost means that the lock did not protect the work to its end.
func (s *Storage) Unlock(ctx context.Context, name string) error {
	lock, err := s.take(name, held.lost) // which job calls is unknown: do not release the lock under which another one works
	if err == nil {
		err = lock.Release(ctx)
	}
	return err
}

// RenewLockLease returns nil if the lock is held, by the clock: lockport renews it, whatever the duration. If the lock was lost, it makes one
// attempt to acquire it again, and fails if another client has it. certmagic calls it at the start of an attempt, and then checks
// whether another client has done the work.
func (s *Storage) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	job, _ := ctx.Value(certmagic.AttemptsCtxKey).(*int)
	own := func(h held) bool { return h.job == job }
	unused := func(h held) bool { return h.job == nil }
	lock, err := s.take(name, own, unused, held.Valid) // if another job's Unlock took the own one, that job left its valid one
	if err != nil {
		return err
	}
	lock.job = job
	if lost := lock.Err(); lost != nil {
		again, failed := s.locker.TryAcquire(ctx, name, s.opts...)
		if failed != nil {
			err = fmt.Errorf("%w; not acquired again: %w", lost, failed)
		} else {
			lock.Lock = again
		}
	}
	s.add(lock)
	return err
}
