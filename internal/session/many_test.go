package session

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

// TestManyOnFewConnections has 1,000 locks held and 500 names waited for by one client on its main session and four for waiting.
func TestManyOnFewConnections(t *testing.T) {
	const holds, waits, blockers = 1000, 500, 4
	s := serve(t)
	dial := func(blockers int) *lockport.Client {
		const ttl = 10 * time.Second
		c, err := lockport.New(New(&netDialer{addr: s.listener.Addr().String(), ttl: ttl}, Options{
			TTL: ttl, Blockers: blockers, Layout: plainLayout,
			Capabilities: driver.Capabilities{Backend: "fake", Token: driver.TokenData, Wake: driver.WakeQueue, Failover: driver.FailoverNone},
		}))
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	sessions := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.peers)
	}
	c, other := dial(blockers), dial(0)
	var held []*lockport.Lock
	for i := range waits {
		l, err := other.TryAcquire(t.Context(), fmt.Sprint("w", i))
		require.NoError(t, err)
		held = append(held, l)
	}
	require.Equal(t, 1, sessions())
	before := runtime.NumGoroutine()
	var mine []*lockport.Lock
	for i := range holds {
		l, err := c.TryAcquire(t.Context(), fmt.Sprint("h", i))
		require.NoError(t, err)
		mine = append(mine, l)
	}
	require.Equal(t, 2, sessions())
	require.Less(t, runtime.NumGoroutine()-before, 15, "goroutines do not grow with the locks")

	var waiting sync.WaitGroup
	for i := range waits {
		waiting.Go(func() {
			l, err := c.Acquire(context.Background(), fmt.Sprint("w", i))
			if err == nil {
				err = l.Release(context.Background())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	require.Eventually(t, func() bool { // all are known at the server: four in its queue, the others to be told
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.waits) == blockers && len(s.awaits) == waits-blockers
	}, 20*time.Second, 5*time.Millisecond)
	require.Equal(t, 1+1+blockers, sessions())
	for _, l := range held {
		require.NoError(t, l.Release(t.Context()))
	}
	waiting.Wait()
	require.LessOrEqual(t, sessions(), 1+1+blockers)
	for _, l := range mine {
		require.True(t, l.Valid())
		require.NoError(t, l.Release(t.Context()))
	}
	require.Eventually(t, func() bool { return len(s.left("")) == 0 }, 5*time.Second, 5*time.Millisecond)
}
