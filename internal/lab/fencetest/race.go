package fencetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/fence"
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

// Race has holders come and write at once: once a newer one has written, none that is older does. open is a client's fence, write has the
// store append the guard's token, and order returns what it has.
func Race[G any](t *testing.T, open func() Fence[G], write func(g G, token lockport.Token) error, order func() []lockport.Token) {
	t.Helper()
	const holders, each, first = 16, 20, 95 // 99 and 100 are among the tokens
	var wrote, count [holders]int
	var all sync.WaitGroup
	for i := range holders {
		token, f := lockport.Token(first+i), open()
		all.Go(func() {
			g, err := f.Register(t.Context(), token)
			for err == nil && wrote[i] < each {
				if err = write(g, token); err == nil {
					wrote[i]++
				}
			}
			if err != nil && !errors.Is(err, fence.ErrStale) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	written := order()
	want(t, slices.IsSorted(written), "an older holder wrote after a newer one: %v", written)
	for _, token := range written {
		count[token-first]++
	}
	want(t, count == wrote, "%v writes are there, and %v were not refused", count, wrote)
	want(t, count[holders-1] == each, "the latest was refused")
}
