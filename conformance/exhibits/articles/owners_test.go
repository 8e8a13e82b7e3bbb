package articles

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
)

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
