package fencetest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/fence"
)

// handOff makes two holds of name that share one claim. before was handed to after inside the process, unseen by the server. after is held.
func handOff(t testing.TB, c *lockport.Client, name string) (before, after *lockport.Lock) {
	t.Helper()
	for range 100 { // until the second caller waits when the first hold is released
		before, err := c.Acquire(t.Context(), name)
		require.NoError(t, err)
		begun, next := make(chan struct{}), make(chan error, 1)
		go func() {
			close(begun)
			var err error
			after, err = c.Acquire(context.Background(), name)
			next <- err
		}()
		<-begun
		require.NoError(t, before.Release(t.Context()))
		require.NoError(t, <-next)
		if before.Owner() == after.Owner() {
			return before, after
		}
		require.NoError(t, after.Release(t.Context()))
	}
	require.Fail(t, "no hold was handed over inside the process")
	return nil, nil
}

// Holders arrive while others write: no older one writes once a newer one has registered. Each adds to what it read, so a late write loses an update.
func race(f *fixture) {
	const holders, each, first = 16, 50, 95 // 99 and 100 are among the tokens
	var wrote atomic.Int64
	var all sync.WaitGroup
	for i := range holders {
		holder := f.at(f.Addr)
		for wrote.Load() < int64(i/4*4) && !f.Failed() { // four arrive together, while earlier holders write
			time.Sleep(100 * time.Microsecond)
		}
		all.Go(func() {
			write, err := holder.register(lockport.Token(first + i))
			var value int64
			if err == nil {
				value, err = holder.Get(f.Context(), f.name)
			}
			for n := 0; n < each && err == nil; n++ {
				value++
				if err = write(f.Context(), value); err == nil {
					wrote.Add(1)
				}
			}
			latest := i == holders-1
			if err != nil && (latest || !errors.Is(err, fence.ErrStale)) {
				f.Errorf("token %d: %v", first+i, err)
			}
		})
	}
	all.Wait()
	f.has(wrote.Load())
}
