package memorytest_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/backend/memory/memorytest"
	"github.com/lockport/lockport/driver"
)

const ttl = 10 * time.Second

var owners atomic.Uint64

// request is a claim of name by a new owner of client.
func request(name, client string) driver.Request {
	return driver.Request{Name: name, Owner: fmt.Sprintf("%032x:%s", owners.Add(1), client), TTL: ttl}
}

// pair is two clients of one server.
func pair() (*memory.Server, *memorytest.Backend, *memorytest.Backend) {
	s := memory.NewServer()
	return s, memorytest.NewBackend(s, nil), memorytest.NewBackend(s, nil)
}

func claim(t testing.TB, b *memorytest.Backend, req driver.Request) driver.Lease {
	t.Helper()
	lease, err := b.TryAcquire(t.Context(), req)
	require.NoError(t, err)
	return lease
}

func release(t testing.TB, lease driver.Lease) {
	t.Helper()
	require.NoError(t, lease.Release(t.Context()))
}

// waited is the outcome of a Wait that runs in the background.
type waited struct {
	lease driver.Lease
	err   error
}

func wait(ctx context.Context, b *memorytest.Backend, req driver.Request) <-chan waited {
	c := make(chan waited, 1)
	go func() {
		lease, err := b.Wait(ctx, req)
		c <- waited{lease, err}
	}()
	return c
}

func TestFailNext(t *testing.T) {
	_, a, _ := pair()
	mine := errors.New("mine")
	a.FailNext(memorytest.Claim, mine)
	a.FailNext(memorytest.Claim, nil)
	_, err := a.TryAcquire(t.Context(), request("x", "a"))
	require.ErrorIs(t, err, mine)
	_, err = a.TryAcquire(t.Context(), request("x", "a"))
	require.ErrorIs(t, err, driver.ErrUnavailable)
	lease := claim(t, a, request("x", "a"))
	require.Equal(t, 3, a.Calls(memorytest.Claim))

	a.FailNext(memorytest.Renew, driver.ErrUnavailable)
	results := make([]driver.Renewal, 1)
	a.RenewBatch(t.Context(), []driver.Lease{lease}, results)
	require.ErrorIs(t, results[0].Err, driver.ErrUnavailable)

	a.FailNext(memorytest.Claim, driver.ErrUnknown)
	req := request("x", "a")
	req.Queue = true
	_, gone, err := a.Requeue(t.Context(), lease, req)
	require.ErrorIs(t, gone, driver.ErrUnknown)
	require.ErrorIs(t, err, driver.ErrUnknown)
	release(t, lease)
}

// The validity counts from the time the request was sent, not from its arrival.
func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, _ := pair()
		var lease driver.Lease
		for _, delay := range []func(){
			func() { a.Delay(3 * time.Second) },
			func() { a.Delay(0); a.DelayNext(memorytest.Claim, 3*time.Second) },
		} {
			delay()
			start := time.Now()
			lease = claim(t, a, request(rand.Text(), "a"))
			require.Equal(t, 3*time.Second, time.Since(start))
			require.Equal(t, start.Add(ttl), lease.Grant().Until)
		}

		sent := time.Now()
		a.DelayNext(memorytest.Renew, time.Second)
		until, err := driver.Renew(t.Context(), a, lease)
		require.NoError(t, err)
		require.Equal(t, sent.Add(ttl), until)

		// Cut short, it does not arrive.
		a.DelayNext(memorytest.Release, time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = lease.Release(ctx)
		require.ErrorIs(t, err, driver.ErrUnknown)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = driver.Renew(t.Context(), a, lease)
		require.NoError(t, err)
		release(t, lease)
	})
}

// A closed client does not stay blocked by a pause.
func TestCloseEndsPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, _ := pair()
		a.Pause()
		w := wait(t.Context(), a, request("x", "a"))
		synctest.Wait()
		require.NoError(t, a.Close())
		require.ErrorIs(t, (<-w).err, driver.ErrUnknown)
	})
}

// A server that is down fails every call, and those that wait.
func TestFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.NewServer()
		f := new(memorytest.Faults)
		a := memorytest.NewBackend(s, f)
		b := memorytest.NewBackend(s, f)
		told := make(chan error, 1)
		req := request("x", "a")
		req.Lost = func(err error) { told <- err }
		lease := claim(t, a, req)
		w := wait(t.Context(), b, request("x", "b"))
		synctest.Wait()

		f.Fail(driver.ErrUnavailable)
		require.ErrorIs(t, (<-w).err, driver.ErrUnknown)
		for _, c := range []*memorytest.Backend{a, b} {
			_, err := c.TryAcquire(t.Context(), request("y", "c"))
			require.ErrorIs(t, err, driver.ErrUnavailable)
		}
		_, err := driver.Renew(t.Context(), a, lease)
		require.ErrorIs(t, err, driver.ErrUnavailable)
		s.Lose("x", nil)
		require.Empty(t, told)
		f.Fail(nil)
		require.ErrorIs(t, <-told, driver.ErrLost)
		release(t, claim(t, a, request("y", "a")))
	})
}

// A cut fails the calls under way, also those that wait, and none that come later. What it cut off has reached the server.
func TestCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair()
		holder := claim(t, b, request("x", "b"))
		waiting := request("x", "a")
		w := wait(t.Context(), a, waiting)
		synctest.Wait()
		cut := a.CutAfter(2)
		claim(t, a, request("y", "a"))
		require.Empty(t, w)
		last := request("z", "a")
		_, err := a.TryAcquire(t.Context(), last)
		require.ErrorIs(t, err, driver.ErrUnknown)
		<-cut
		require.ErrorIs(t, (<-w).err, driver.ErrUnknown)
		require.NoError(t, a.Abandon(t.Context(), waiting))
		claim(t, a, last)

		waiting = request("x", "a")
		a.CutAfter(1)
		require.ErrorIs(t, (<-wait(t.Context(), a, waiting)).err, driver.ErrUnknown)
		st, err := b.Inspect(t.Context(), "x")
		require.NoError(t, err)
		require.Equal(t, 1, st.Waiters, "it was cut off at the server")
		release(t, holder)
		claim(t, a, waiting)
	})
}

// Restore takes back all faults.
func TestRestore(t *testing.T) {
	_, a, _ := pair()
	a.Pause()
	a.Fail(driver.ErrUnavailable)
	a.Delay(time.Hour)
	a.LoseNextReply(memorytest.Claim)
	a.CutAfter(1)
	a.Restore()
	release(t, claim(t, a, request("x", "a")))
}
