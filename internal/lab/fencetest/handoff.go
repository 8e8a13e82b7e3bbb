package fencetest

import (
	"context"
	"testing"

	"github.com/lockport/lockport"
)

// HandOff makes two holds of name that share one claim: before was released to after, which is held, inside the process, so that the server
// saw nothing of it.
func HandOff(t testing.TB, c *lockport.Client, name string) (before, after *lockport.Lock) {
	t.Helper()
	for range 100 { // until the second caller is in the queue when the first hold is released
		before, err := c.Acquire(t.Context(), name)
		must(t, err)
		begun, next := make(chan struct{}), make(chan error, 1)
		go func() {
			close(begun)
			var err error
			after, err = c.Acquire(context.Background(), name)
			next <- err
		}()
		<-begun
		must(t, before.Release(t.Context()))
		must(t, <-next)
		if before.Owner() == after.Owner() {
			return before, after
		}
		must(t, after.Release(t.Context()))
	}
	t.Fatal("no hold was handed on")
	return nil, nil
}
