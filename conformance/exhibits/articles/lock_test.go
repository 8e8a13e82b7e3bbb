package articles

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

// newTestLock makes a sound lock on a Redis of its own.
func newTestLock(t *testing.T) *lock {
	s := servers.NeedRedis(t, servers.RedisOptions{})
	l := onRedis(goredis.NewClient(&goredis.Options{Addr: s.Addr()}), "set-nx-px")
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// A claim that arrives after it was abandoned, as one from a silent connection may, is not granted.
func TestAbandonOvertakesItsClaim(t *testing.T) {
	l := newTestLock(t)
	late := driver.Request{Name: "name", Owner: "late", TTL: time.Hour}
	require.NoError(t, l.Abandon(t.Context(), late))
	_, err := l.TryAcquire(t.Context(), late)
	require.ErrorIs(t, err, driver.ErrHeld)
	_, err = l.TryAcquire(t.Context(), driver.Request{Name: "name", Owner: "other", TTL: time.Hour})
	require.NoError(t, err)
}

// Four digits are too few however well they are drawn: of strangers who come to release, one ends the lock. So many attempts miss once in
// three million runs.
func TestFourDigitsAreFew(t *testing.T) {
	l := newTestLock(t)
	l.value = drawn(rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())))
	_, err := l.TryAcquire(t.Context(), driver.Request{Name: "name", Owner: "holder", TTL: time.Hour})
	require.NoError(t, err)

	const attempts = 135_000
	var next, ended atomic.Int64
	var strangers sync.WaitGroup
	for range 16 {
		strangers.Go(func() {
			for i := next.Add(1); i <= attempts && ended.Load() == 0; i = next.Add(1) {
				c := l.claim(driver.Request{Name: "name", Owner: strconv.FormatInt(i, 10), TTL: time.Second})
				if ours, _ := l.give(context.WithoutCancel(t.Context()), c); ours {
					ended.Store(i)
				}
			}
		})
	}
	strangers.Wait()
	require.NotZero(t, ended.Load(), "%d strangers released the lock of a holder whose owner has four digits, and it is still there", attempts)
	t.Logf("stranger %d ended the lock", ended.Load())
}
