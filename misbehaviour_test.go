package lockport_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/driver"
)

// ignorant is a backend whose client library ignores contexts.
type ignorant struct {
	*memory.Backend
	hang chan struct{}
}

func (b ignorant) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	<-b.hang
	return b.Backend.TryAcquire(context.WithoutCancel(ctx), req)
}

func TestAcquireReturnsWhateverTheClientLibraryDoes(t *testing.T) {
	bubble(t, func(w *world) {
		b := ignorant{memory.NewBackend(memory.Options{Server: w.server}), make(chan struct{})}
		c, err := lockport.New(notPrompt{b}, lockport.Logger(nil))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(w.ctx, time.Second)
		defer cancel()
		start := time.Now()
		_, err = c.TryAcquire(ctx, "a")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(start))
		close(b.hang) // it is granted now, and given back
		synctest.Wait()
		w.nobodyHolds("a")
		require.NoError(t, c.Close())
	})
}

// odd is a backend that panics at first, and then says that a claim is lost before it grants it, without a reason.
type odd struct {
	*memory.Backend
	calls *int
}

func (b odd) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	switch *b.calls++; *b.calls {
	case 1:
		panic("oops")
	case 2:
		defer req.Lost(nil)
	}
	return b.Backend.TryAcquire(ctx, req)
}

// Web servers recover from panics: the name must stay usable, and the client be closable.
func TestOddBackend(t *testing.T) {
	bubble(t, func(w *world) {
		if w.tardy {
			return // a panic on a goroutine of the client's own ends the program
		}
		c, err := lockport.New(odd{memory.NewBackend(memory.Options{Server: w.server}), new(int)}, lockport.Logger(nil))
		require.NoError(t, err)
		require.PanicsWithValue(t, "oops", func() { _, _ = c.TryAcquire(w.ctx, "a") })
		synctest.Wait()
		_, err = c.TryAcquire(w.ctx, "a")
		require.ErrorIs(t, err, lockport.ErrUnavailable, "lost before it was granted")
		synctest.Wait()
		l, err := c.TryAcquire(w.ctx, "a")
		require.NoError(t, err)
		w.release(l)
		start := time.Now()
		require.NoError(t, c.Close())
		require.Zero(t, time.Since(start))
	})
}
