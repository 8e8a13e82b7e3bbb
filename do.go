package lockport

import (
	"context"
	"errors"
)

// Do acquires name from l, calls fn, and releases the lock. ctx bounds both the wait and fn: to bound only the wait, use Acquire. fn's context ends
// when the hold does, with the reason as its cause. Do returns fn's error. If the lock was lost before fn returned, the work was not protected to the
// end: Do returns an error that matches ErrLost, even if fn returned nil. Likewise it returns ErrClosed if l was closed. An error of the release is
// joined to fn's error. If fn panics, the lock is released.
func Do(ctx context.Context, l Locker, name string, fn func(context.Context, *Lock) error, opts ...AcquireOption) error {
	lock, err := l.Acquire(ctx, name, opts...)
	if err != nil {
		return err
	}
	return during(ctx, lock, fn)
}

// TryDo is Do without waiting: if the lock is held, it skips fn and returns false and no error.
func TryDo(ctx context.Context, l Locker, name string, fn func(context.Context, *Lock) error, opts ...AcquireOption) (done bool, err error) {
	lock, err := l.TryAcquire(ctx, name, opts...)
	switch {
	case errors.Is(err, ErrHeld):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, during(ctx, lock, fn)
}

// hold is a Lock or a Set.
type hold interface {
	Err() error
	Context(parent context.Context) (context.Context, context.CancelFunc)
	Release(ctx context.Context) error
}

// during calls fn while lock is held, and releases it.
func during[H hold](ctx context.Context, lock H, fn func(context.Context, H) error) (err error) {
	defer func() {
		ended := lock.Err()
		failed := lock.Release(ctx)
		if errors.Is(ended, ErrClosed) { // another client may have held it since
			failed = ended
		}
		err = join(err, failed)
	}()
	held, cancel := lock.Context(ctx)
	defer cancel()
	return fn(held, lock)
}
