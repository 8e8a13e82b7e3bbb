package conformance

import (
	"context"
	"sync"
)

// storm runs n goroutines at once that call f, which is given the goroutine's number, so many times each. It returns when all
// have finished; an error ends the context of all, and then the case.
func (e *Env) storm(n, rounds int, f func(ctx context.Context, i int) error) {
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			for range rounds {
				if err := f(ctx, i); err != nil {
					e.fail(err)
					cancel()
					return
				}
			}
		})
	}
	all.Wait()
	e.stopIfFailed()
}
