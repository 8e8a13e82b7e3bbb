package memory_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/driver"
)

const ttl = 10 * time.Second

var owners atomic.Uint64

// request is a claim of name by a new owner of client.
func request(name, client string) driver.Request {
	return driver.Request{Name: name, Owner: fmt.Sprintf("%032x:%s", owners.Add(1), client), TTL: ttl}
}

// pair is two clients of one server.
func pair() (*memory.Server, *memory.Backend, *memory.Backend) {
	s := memory.NewServer()
	return s, memory.NewBackend(memory.Options{Server: s}), memory.NewBackend(memory.Options{Server: s})
}

func claim(t testing.TB, b *memory.Backend, req driver.Request) driver.Lease {
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

func wait(ctx context.Context, b *memory.Backend, req driver.Request) <-chan waited {
	c := make(chan waited, 1)
	go func() {
		lease, err := b.Wait(ctx, req)
		c <- waited{lease, err}
	}()
	return c
}

func waiters(t testing.TB, b *memory.Backend, name string) int {
	t.Helper()
	st, err := b.Inspect(t.Context(), name)
	require.NoError(t, err)
	return st.Waiters
}

func TestExclusionAndTokens(t *testing.T) {
	_, a, b := pair()
	first := claim(t, a, request("x", "a"))
	_, err := b.TryAcquire(t.Context(), request("x", "b"))
	require.ErrorIs(t, err, driver.ErrHeld)
	var heldErr *driver.HeldError
	require.ErrorAs(t, err, &heldErr)
	require.Greater(t, heldErr.ExpiresIn, ttl/2)
	other := claim(t, b, request("y", "b"))

	release(t, first)
	second := claim(t, b, request("x", "b"))
	require.Greater(t, second.Grant().Token, first.Grant().Token)
	require.NotZero(t, other.Grant().Token)

	require.ErrorIs(t, first.Release(t.Context()), driver.ErrLost) // late: the second holder keeps it
	_, err = a.TryAcquire(t.Context(), request("x", "a"))
	require.ErrorIs(t, err, driver.ErrHeld)
}

func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair()
		first := claim(t, a, request("x", "a"))
		require.Equal(t, time.Now().Add(ttl), first.Grant().Until)

		time.Sleep(ttl / 2)
		until, err := driver.Renew(t.Context(), a, first)
		require.NoError(t, err)
		require.Equal(t, time.Now().Add(ttl), until)

		time.Sleep(ttl - time.Nanosecond)
		_, err = b.TryAcquire(t.Context(), request("x", "b"))
		require.ErrorIs(t, err, driver.ErrHeld)
		time.Sleep(time.Nanosecond)
		_, err = driver.Renew(t.Context(), a, first)
		require.ErrorIs(t, err, driver.ErrLost, "also while nobody has taken the name since")
		second := claim(t, b, request("x", "b"))
		require.Greater(t, second.Grant().Token, first.Grant().Token)

		_, err = driver.Renew(t.Context(), a, first)
		require.ErrorIs(t, err, driver.ErrLost)
		require.ErrorIs(t, first.Release(t.Context()), driver.ErrLost)
		_, err = driver.Renew(t.Context(), b, second)
		require.NoError(t, err)
	})
}

func TestAbandon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair()
		held, queued := request("x", "a"), request("x", "b")
		held.Lost = func(error) { t.Error("Lost was called for a claim that its own client ended") }
		claim(t, a, held)
		ctx, cancel := context.WithCancel(t.Context())
		w := wait(ctx, b, queued)
		synctest.Wait()
		cancel()
		err := (<-w).err
		require.ErrorIs(t, err, driver.ErrUnknown)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 1, waiters(t, a, "x"), "the server keeps a place until it is abandoned")
		for range 2 {
			require.NoError(t, b.Abandon(t.Context(), queued))
		}
		require.Zero(t, waiters(t, a, "x"))
		for range 2 {
			require.NoError(t, a.Abandon(t.Context(), held))
		}
		release(t, claim(t, b, request("x", "b")))
		all, err := a.List(t.Context(), "")
		require.NoError(t, err)
		require.Empty(t, all)
	})
}

// A call whose context has ended, however late it gets to the server, claims nothing.
func TestEndedContext(t *testing.T) {
	_, a, b := pair()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := a.TryAcquire(ctx, request("x", "a"))
	require.ErrorIs(t, err, context.Canceled)
	_, err = a.Wait(ctx, request("x", "a"))
	require.ErrorIs(t, err, context.Canceled)
	release(t, claim(t, b, request("x", "b")))
}

func TestRenewBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, a, _ := pair()
		var leases []driver.Lease
		for i := range 5 {
			leases = append(leases, claim(t, a, request(fmt.Sprint(i), "a")))
		}
		time.Sleep(ttl / 2)
		require.True(t, s.LoseSilently("3"))
		results := make([]driver.Renewal, len(leases))
		a.RenewBatch(t.Context(), leases, results)
		for i, r := range results {
			if i == 3 {
				require.ErrorIs(t, r.Err, driver.ErrLost)
				continue
			}
			require.NoError(t, r.Err)
			require.Equal(t, time.Now().Add(ttl), r.Until)
		}
	})
}

func TestInspectAndBreak(t *testing.T) {
	_, a, b := pair()
	st, err := b.Inspect(t.Context(), "x")
	require.NoError(t, err)
	require.False(t, st.Held)
	require.ErrorIs(t, b.Break(t.Context(), "x", "nobody"), driver.ErrLost)

	var reason error
	req := request("x", "a")
	req.Lost = func(err error) { reason = err }
	lease := claim(t, a, req)
	claim(t, a, request("y", "a"))
	st, err = b.Inspect(t.Context(), "x")
	require.NoError(t, err)
	require.Equal(t, req.Owner, st.Owner)
	require.Equal(t, lease.Grant().Token, st.Token)
	require.Equal(t, ttl, st.Expires.Sub(st.Since))
	all, err := b.List(t.Context(), "x")
	require.NoError(t, err)
	require.Equal(t, []driver.Status{st}, all)

	require.ErrorIs(t, b.Break(t.Context(), "x", "somebody else"), driver.ErrLost)
	require.NoError(t, reason)
	require.NoError(t, b.Break(t.Context(), "x", st.Owner))
	require.ErrorIs(t, reason, driver.ErrLost, "told before Break returns")
	claim(t, b, request("x", "b"))
	_, err = driver.Renew(t.Context(), a, lease)
	require.ErrorIs(t, err, driver.ErrLost)
}

// A closed client's claims last for their TTL, as those of a dead process; its waiting claims are gone.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair()
		held := request("x", "a")
		held.Lost = func(error) { t.Error("a dead client was called") }
		lease := claim(t, a, held)
		start := time.Now()
		w := wait(t.Context(), a, request("x", "a"))
		synctest.Wait()
		theirs := wait(t.Context(), b, request("x", "b"))
		synctest.Wait()
		require.NoError(t, a.Close())
		require.NoError(t, a.Close())
		require.ErrorIs(t, (<-w).err, driver.ErrUnknown)
		_, err := a.TryAcquire(t.Context(), request("z", "a"))
		require.ErrorIs(t, err, driver.ErrRefused)
		_, err = driver.Renew(t.Context(), a, lease)
		require.Error(t, err)
		require.Equal(t, 1, waiters(t, b, "x"), "the other client's")

		got := <-theirs
		require.NoError(t, got.err)
		require.Equal(t, ttl, time.Since(start))
	})
}

// Many clients that claim, wait, give up and release at random never hold a name twice, and leave nothing.
func TestRandomly(t *testing.T) {
	s := memory.NewServer()
	var holders [3]atomic.Int32
	var last [3]uint64
	var wg sync.WaitGroup
	for id := range 8 {
		b := memory.NewBackend(memory.Options{Server: s})
		rnd := rand.New(rand.NewPCG(uint64(id), 1))
		wg.Go(func() {
			for range 500 {
				i := rnd.IntN(len(holders))
				req := request(fmt.Sprint(i), fmt.Sprint(id))
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rnd.IntN(300))*time.Microsecond)
				lease, err := b.Wait(ctx, req)
				cancel()
				if err != nil {
					if err := b.Abandon(context.Background(), req); err != nil {
						t.Error(err)
					}
					continue
				}
				if n := holders[i].Add(1); n != 1 {
					t.Errorf("%d hold the name", n)
				}
				if token := lease.Grant().Token; token <= last[i] {
					t.Errorf("token %d after %d", token, last[i])
				} else {
					last[i] = token
				}
				holders[i].Add(-1)
				if err := lease.Release(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	all, err := memory.NewBackend(memory.Options{Server: s}).List(t.Context(), "")
	require.NoError(t, err)
	require.Empty(t, all)
}
