package lockport

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Set is a hold of several names at once, returned by AcquireAll. All methods are safe for concurrent use.
type Set struct {
	locks []*Lock // in the order of their names
}

// AcquireAll acquires all of names, or none. It requests all at once. If one of them is held, it releases the others and acquires them one by one in
// the order of the names, waiting for each. Every client uses the same order, so calls of AcquireAll do not deadlock. The options apply to every
// name. While it waits for one name, it may lose another: see Set.Err. It fails if the server is unavailable when it goes on to the next name. Errors
// are those of Acquire, and ErrInvalidName if names is empty or has a name twice.
func AcquireAll(ctx context.Context, l Locker, names []string, opts ...AcquireOption) (all *Set, err error) {
	all, err = TryAcquireAll(ctx, l, names, opts...)
	if !errors.Is(err, ErrHeld) {
		return all, err
	}
	set := new(Set)
	defer func() {
		if all == nil { // an Acquire failed or panicked
			set.undo(ctx)
		}
	}()
	for _, name := range slices.Sorted(slices.Values(names)) {
		lock, err := l.Acquire(ctx, name, opts...)
		if err != nil {
			return nil, err
		}
		set.locks = append(set.locks, lock)
	}
	return set, nil
}

// TryAcquireAll is AcquireAll without waiting: ErrHeld if one of names is held.
func TryAcquireAll(ctx context.Context, l Locker, names []string, opts ...AcquireOption) (*Set, error) {
	names = slices.Sorted(slices.Values(names))
	if len(names) == 0 || len(slices.Compact(slices.Clone(names))) < len(names) {
		return nil, &Error{Op: "acquire", Err: fmt.Errorf("%w: give at least one name, and none twice", ErrInvalidName)}
	}
	locks, errs := make([]*Lock, len(names)), make([]error, len(names))
	inParallel(len(names), len(names), func(i int) { locks[i], errs[i] = l.TryAcquire(ctx, names[i], opts...) })
	set := &Set{locks: slices.DeleteFunc(locks, func(lock *Lock) bool { return lock == nil })}
	if len(set.locks) == len(names) {
		return set, nil
	}
	set.undo(ctx)
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	worst := slices.IndexFunc(errs, func(err error) bool { return !errors.Is(err, ErrHeld) })
	return nil, errs[max(worst, 0)]
}

// undo releases the holds of a set that did not come about. It goes on in the background when ctx ends. MinHold does not keep them: no work has begun.
func (s *Set) undo(ctx context.Context) {
	for _, l := range s.locks {
		l.claim.client.mu.Lock()
		l.keep = 0
		l.claim.client.mu.Unlock()
	}
	_ = within(ctx, func() error { return s.Release(ctx) })
}

// DoAll is Do for several names.
func DoAll(ctx context.Context, l Locker, names []string, fn func(context.Context, *Set) error, opts ...AcquireOption) error {
	set, err := AcquireAll(ctx, l, names, opts...)
	if err != nil {
		return err
	}
	return during(ctx, set, fn)
}

// Locks returns the hold of each name, in the order of the names, for their tokens. Releasing one of them alone ends the set.
func (s *Set) Locks() []*Lock { return slices.Clone(s.locks) }

// Valid reports that all are held, by comparing the clock now. It does no I/O.
func (s *Set) Valid() bool { return s.Err() == nil }

// Err is nil while all are held, by comparing the clock now. Otherwise it is the Err of the first hold that has ended; a loss takes precedence over a
// release.
func (s *Set) Err() error {
	var first error
	for _, lock := range s.locks {
		err := lock.Err()
		if errors.Is(err, ErrLost) {
			return err
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// Context returns a context that carries the holds for Reenter, and ends with parent or with the first hold that ends. Its cause is then that hold's
// Err. You must call cancel, which frees the context's resources.
func (s *Set) Context(parent context.Context) (ctx context.Context, cancel context.CancelFunc) {
	ctx, cancels := parent, make([]context.CancelFunc, len(s.locks))
	for i, lock := range s.locks {
		ctx, cancels[i] = lock.Context(ctx)
	}
	return ctx, func() {
		for _, cancel := range slices.Backward(cancels) {
			cancel()
		}
	}
}

// Deadline is the earliest Deadline of the holds. false: none of them has a deadline, or one has ended.
func (s *Set) Deadline() (earliest time.Time, ok bool) {
	for _, lock := range s.locks {
		d, has := lock.Deadline()
		switch {
		case lock.ended.Load() != nil: // seen after Deadline, which is false then
			return time.Time{}, false
		case has && (!ok || d.Before(earliest)):
			earliest, ok = d, true
		}
	}
	return earliest, ok
}

// Release releases all, at the same time. It takes at most as long as Lock.Release, and returns the errors joined.
func (s *Set) Release(ctx context.Context) error {
	errs := make([]error, len(s.locks))
	inParallel(len(errs), len(errs), func(i int) { errs[i] = s.locks[i].Release(ctx) })
	return join(errs...)
}
