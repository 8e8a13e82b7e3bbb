package memorytest_test

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/backend/memory/memorytest"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
)

// client is a client whose calls fail on demand.
type client struct {
	*memorytest.Backend
	*peer.Peer
}

func newClient(t testing.TB, name string, server *memory.Server, f *memorytest.Faults) client {
	b := memorytest.NewBackend(server, f)
	return client{b, &peer.Peer{T: t, Of: b, Name: name}}
}

// pair returns two clients of one server.
func pair(t testing.TB) (client, client) {
	s := memory.NewServer()
	return newClient(t, "a", s, nil), newClient(t, "b", s, nil)
}

// waited is the outcome of a Wait that runs in the background.
type waited struct {
	lease driver.Lease
	err   error
}

func wait(ctx context.Context, b client, req driver.Request) <-chan waited {
	c := make(chan waited, 1)
	go func() {
		lease, err := b.Wait(ctx, req)
		c <- waited{lease, err}
	}()
	return c
}

func TestFailNext(t *testing.T) {
	a, _ := pair(t)
	mine := errors.New("mine")
	a.FailNext(memorytest.Claim, mine)
	a.FailNext(memorytest.Claim, nil)
	_, err := a.Try(a.Request("x"))
	require.ErrorIs(t, err, mine)
	_, err = a.Try(a.Request("x"))
	require.ErrorIs(t, err, driver.ErrUnavailable)
	lease := a.Takes(a.Request("x"))
	require.Equal(t, 3, a.Calls(memorytest.Claim))

	a.FailNext(memorytest.Renew, driver.ErrUnavailable)
	results := make([]driver.Renewal, 1)
	a.RenewBatch(t.Context(), []driver.Lease{lease}, results)
	require.ErrorIs(t, results[0].Err, driver.ErrUnavailable)

	a.FailNext(memorytest.Claim, driver.ErrUnknown)
	req := a.Request("x")
	req.Queue = true
	_, gone, err := a.Requeue(t.Context(), lease, req)
	require.ErrorIs(t, gone, driver.ErrUnknown)
	require.ErrorIs(t, err, driver.ErrUnknown)
	a.Frees(lease)
}

// Validity counts from when the request was sent, not from its arrival.
func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := pair(t)
		var lease driver.Lease
		for _, delay := range []func(){
			func() { a.Delay(3 * time.Second) },
			func() { a.Delay(0); a.DelayNext(memorytest.Claim, 3*time.Second) },
		} {
			delay()
			start := time.Now()
			lease = a.Takes(a.Request(rand.Text()))
			require.Equal(t, 3*time.Second, time.Since(start))
			require.Equal(t, start.Add(10*time.Second), lease.Grant().Until)
		}

		sent := time.Now()
		a.DelayNext(memorytest.Renew, time.Second)
		until, err := driver.Renew(t.Context(), a, lease)
		require.NoError(t, err)
		require.Equal(t, sent.Add(10*time.Second), until)

		// A call whose context ends during the delay does not arrive.
		a.DelayNext(memorytest.Release, time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = lease.Release(ctx)
		require.ErrorIs(t, err, driver.ErrUnknown)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = driver.Renew(t.Context(), a, lease)
		require.NoError(t, err)
		a.Frees(lease)
	})
}

// Close ends calls blocked by a pause.
func TestCloseEndsPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := pair(t)
		a.Pause()
		w := wait(t.Context(), a, a.Request("x"))
		synctest.Wait()
		require.NoError(t, a.Close())
		require.ErrorIs(t, (<-w).err, driver.ErrUnknown)
	})
}

// A server that is down fails all calls, also waiting ones.
func TestFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.NewServer()
		f := new(memorytest.Faults)
		a, b := newClient(t, "a", s, f), newClient(t, "b", s, f)
		told := make(chan error, 1)
		req := a.Request("x")
		req.Lost = func(err error) { told <- err }
		lease := a.Takes(req)
		w := wait(t.Context(), b, b.Request("x"))
		synctest.Wait()

		f.Fail(driver.ErrUnavailable)
		require.ErrorIs(t, (<-w).err, driver.ErrUnknown)
		for _, c := range []client{a, b} {
			_, err := c.Try(b.Request("y"))
			require.ErrorIs(t, err, driver.ErrUnavailable)
		}
		_, err := driver.Renew(t.Context(), a, lease)
		require.ErrorIs(t, err, driver.ErrUnavailable)
		s.Lose("x", nil)
		require.Empty(t, told)
		f.Fail(nil)
		require.ErrorIs(t, <-told, driver.ErrLost)
		a.Frees(a.Takes(a.Request("y")))
	})
}

// A cut fails the calls under way, also waiting ones, but no later ones. Those calls have reached the server.
func TestCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		holder := b.Takes(b.Request("x"))
		waiting := a.Request("x")
		w := wait(t.Context(), a, waiting)
		synctest.Wait()
		cut := a.CutAfter(2)
		a.Takes(a.Request("y"))
		require.Empty(t, w)
		last := a.Request("z")
		_, err := a.Try(last)
		require.ErrorIs(t, err, driver.ErrUnknown)
		<-cut
		err = (<-w).err
		require.ErrorIs(t, err, driver.ErrUnknown)
		require.NotErrorIs(t, err, context.Canceled, "its context has not ended")
		require.NoError(t, a.Abandon(t.Context(), waiting))
		a.Takes(last)

		waiting = a.Request("x")
		a.CutAfter(1)
		require.ErrorIs(t, (<-wait(t.Context(), a, waiting)).err, driver.ErrUnknown)
		st, err := b.Inspect(t.Context(), "x")
		require.NoError(t, err)
		require.Equal(t, 1, st.Waiters, "the waiting claim did not reach the server")
		b.Frees(holder)
		a.Takes(waiting)
	})
}

// Restore withdraws all faults.
func TestRestore(t *testing.T) {
	a, _ := pair(t)
	a.Pause()
	a.Fail(driver.ErrUnavailable)
	a.Delay(time.Hour)
	a.LoseNextReply(memorytest.Claim)
	a.CutAfter(1)
	a.Restore()
	a.Frees(a.Takes(a.Request("x")))
}
