package worker

import (
	"cmp"
	"context"
	"sync"
	"time"
)

// Group is a number of workers of one kind.
type Group[O, A any] []*Handle[O, A]

// StartAll starts n workers concurrently. If one fails to start, it closes the others.
func (k Kind[C, O, A]) StartAll(ctx context.Context, config C, n int) (Group[O, A], error) {
	all := make(Group[O, A], n)
	errs := AtOnce(all, func(i int, _ *Handle[O, A]) (err error) {
		all[i], err = k.Start(ctx, config)
		return err
	})
	if err := cmp.Or(errs...); err != nil {
		all.Close()
		return nil, err
	}
	return all, nil
}

// Sleep waits for d, or returns the cause of ctx's end.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// AtOnce calls f for all items concurrently and returns the result of each call.
func AtOnce[T any](items []T, f func(i int, item T) error) []error {
	errs := make([]error, len(items))
	var calls sync.WaitGroup
	for i, item := range items {
		calls.Go(func() { errs[i] = f(i, item) })
	}
	calls.Wait()
	return errs
}

// Close closes all workers that were started.
func (all Group[O, A]) Close() {
	AtOnce(all, func(_ int, h *Handle[O, A]) error {
		if h != nil {
			h.Close()
		}
		return nil
	})
}

// Kill kills all workers.
func (all Group[O, A]) Kill() {
	for _, h := range all {
		h.Kill()
	}
}
