package crew

import (
	"context"
	"sync"
)

// Crew are workers of one kind.
type Crew[O, A any] []*Clerk[O, A]

// HireAll starts n workers at once. If one of them cannot begin, none is left.
func (k Kind[P, O, A]) HireAll(ctx context.Context, p P, n int) (Crew[O, A], error) {
	all := make(Crew[O, A], n)
	err := all.Each(func(i int, _ *Clerk[O, A]) (err error) {
		all[i], err = k.Hire(ctx, p)
		return err
	})
	if err != nil {
		all.End()
		return nil, err
	}
	return all, nil
}

// Each calls f for all workers at once, and returns when it has returned for all, with the first error.
func (all Crew[O, A]) Each(f func(i int, c *Clerk[O, A]) error) error {
	errs := make([]error, len(all))
	var calls sync.WaitGroup
	for i, c := range all {
		calls.Go(func() { errs[i] = f(i, c) })
	}
	calls.Wait()
	return First(errs)
}

// End ends all workers, those that there are.
func (all Crew[O, A]) End() {
	_ = all.Each(func(_ int, c *Clerk[O, A]) error {
		if c != nil {
			c.End()
		}
		return nil
	})
}

// Kill ends all workers with SIGKILL.
func (all Crew[O, A]) Kill() {
	for _, c := range all {
		c.Kill()
	}
}

// First is the first error of several, which mostly say the same.
func First(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
