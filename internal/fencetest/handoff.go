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
	type result struct {
		lock *lockport.Lock
		err  error
	}
	for range 100 { // until the second caller is in the queue when the first hold is released
		before, err := c.Acquire(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		begun, next := make(chan struct{}), make(chan result, 1)
		go func() {
			close(begun)
			l, err := c.Acquire(context.Background(), name)
			next <- result{l, err}
		}()
		<-begun
		if err := before.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		r := <-next
		if r.err != nil {
			t.Fatal(r.err)
		}
		if before.Owner() == r.lock.Owner() {
			return before, r.lock
		}
		if err := r.lock.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("no hold was handed on")
	return nil, nil
}
