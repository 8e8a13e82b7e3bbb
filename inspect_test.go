package lockport_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/memory/memorytest"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
)

func TestInspectAndList(t *testing.T) {
	bubble(t, func(w *world) {
		holder, _ := w.client(lockport.Label("batch"))
		looker, _ := w.client()
		private, _ := w.client(lockport.HideHost(), lockport.Label("bätch 1"))
		l := w.acquire(holder, "jobs/a")
		other := w.acquire(holder, "other")
		st := peer.Must(looker.Inspect(w.ctx, "jobs/a"))(t)
		host, _ := os.Hostname()
		token, _ := l.Token()
		require.Equal(t, lockport.Status{Name: "jobs/a", Held: true, Owner: l.Owner(), Host: host, PID: os.Getpid(), Label: "batch",
			Token: token, Since: st.Since, Expires: st.Expires}, st)
		require.Equal(t, []lockport.Status{st}, peer.Must(looker.List(w.ctx, "jobs/"))(t))

		st = peer.Must(looker.Inspect(w.ctx, w.acquire(private, "private").Name()))(t)
		require.Equal(t, []any{"hidden", os.Getpid(), "b_tch_1"}, []any{st.Host, st.PID, st.Label})
		require.NotContains(t, st.Owner, host)

		require.ErrorIs(t, peer.ErrOf(looker.Inspect(w.ctx, "")), lockport.ErrInvalidName)
		require.ErrorIs(t, looker.Break(w.ctx, "", "x"), lockport.ErrInvalidName)
		require.ErrorIs(t, looker.Break(w.ctx, "other", ""), lockport.ErrLost)
		require.ErrorIs(t, peer.ErrOf(looker.List(w.ctx, strings.Repeat("x", driver.MaxNameLength+1))), lockport.ErrInvalidName)
		require.NoError(t, other.Err())

		ended, cancel := context.WithCancel(w.ctx)
		cancel()
		_, inspect := looker.Inspect(ended, "other")
		_, several := lockport.TryAcquireAll(ended, looker, []string{"a", "b"})
		for _, err := range []error{inspect, several, looker.Break(ended, "other", other.Owner()), looker.Check(ended)} {
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, lockport.ErrUnavailable, "no request was made")
		}
		require.NoError(t, other.Err())
	})
}

func TestWhatTheBackendLacks(t *testing.T) {
	bare := func(caps *driver.Capabilities) { caps.Shared, caps.Permits = false, false }
	c := peer.Must(lockport.New(stating{plain{memorytest.NewBackend(nil, nil)}, bare}))(t)
	defer c.Close()
	_, inspect := c.Inspect(t.Context(), "a")
	_, list := c.List(t.Context(), "")
	_, shared := c.Acquire(t.Context(), "x", lockport.Shared())
	_, permit := c.Acquire(t.Context(), "x", lockport.Permits(2))
	for _, err := range []error{inspect, list, c.Break(t.Context(), "a", "x"), shared, permit} {
		require.ErrorIs(t, err, errors.ErrUnsupported)
	}
	require.EqualError(t, inspect, `lockport: inspect "a" (memory): unsupported operation: the backend cannot show its locks`)
}

func TestTryDo(t *testing.T) {
	bubble(t, func(w *world) {
		c, _ := w.client()
		l := w.acquire(w.other(), "a")
		calls := 0
		fn := func(context.Context, *lockport.Lock) error { calls++; return os.ErrInvalid }
		require.False(t, peer.Must(lockport.TryDo(w.ctx, c, "a", fn))(t))
		w.release(l)
		done, err := lockport.TryDo(w.ctx, c, "a", fn)
		require.ErrorIs(t, err, os.ErrInvalid)
		require.True(t, done)
		require.ErrorIs(t, peer.ErrOf(lockport.TryDo(w.ctx, c, "", fn)), lockport.ErrInvalidName)
		require.Equal(t, 1, calls)
		w.nobodyHolds("a")
	})
}

// ErrHeld describes the holder without another request.
func TestHeldErrorNamesTheHolder(t *testing.T) {
	bubble(t, func(w *world) {
		holder, _ := w.client(lockport.Label("batch"))
		c, b := w.client()
		l := w.acquire(holder, "a")
		taken := time.Now()
		w.sleep(time.Second)
		check := func(err error) {
			t.Helper()
			var held *lockport.HeldError
			require.ErrorIs(w, err, lockport.ErrHeld)
			require.ErrorAs(w, err, &held)
			host, _ := os.Hostname()
			require.Equal(w, lockport.Status{Name: "a", Held: true, Owner: l.Owner(), Host: host, PID: os.Getpid(), Label: "batch", Token: w.token(l),
				Since: held.Since, Expires: held.Expires, Waiters: -1}, held.Status)
			require.WithinDuration(w, taken.Add(ttl), held.Expires, 0)
			require.ErrorContains(w, err, "by batch, process")
		}
		_, err := c.TryAcquire(w.ctx, "a")
		check(err)
		_, err = c.Acquire(w.within(time.Second).ctx, "a")
		require.ErrorIs(w, err, context.DeadlineExceeded)
		check(err)
		require.Zero(w, b.Calls(memorytest.Look))

		require.ErrorIs(w, peer.ErrOf(holder.TryAcquire(w.ctx, "a")), lockport.ErrHeld, "this client holds it")
		w.release(l)
	})
}
