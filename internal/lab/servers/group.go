package servers

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// node is one server of a group.
type node interface {
	Addr() string
	Log() string
	Close() error
}

func addrs[N node](nodes []N) []string {
	var all []string
	for _, n := range nodes {
		all = append(all, n.Addr())
	}
	return all
}

func logs[N node](nodes []N) string {
	var all string
	for _, n := range nodes {
		all += fmt.Sprintf("--- %s\n%s", n.Addr(), n.Log())
	}
	return all
}

func closeAll[N node](nodes []N) error {
	var errs []error
	for _, n := range nodes {
		errs = append(errs, n.Close())
	}
	return errors.Join(errs...)
}

// atOnce calls f for 0 to n-1, all at once: a node does not become ready without the others. It returns the first error, which
// ends the context of the other calls, when all have returned.
func atOnce(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var calls sync.WaitGroup
	var first error
	var failed sync.Once
	for i := range n {
		calls.Go(func() {
			if err := f(ctx, i); err != nil {
				failed.Do(func() { first = err })
				cancel(err)
			}
		})
	}
	calls.Wait()
	return first
}
