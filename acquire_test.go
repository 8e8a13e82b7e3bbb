package lockport_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/memory/memorytest"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
)

func TestGrantThatCameTooLateIsNotBelieved(t *testing.T) {
	bubble(t, func(w *world) {
		c, b := w.client(lockport.TTL(time.Second))
		b.DelayNext(memorytest.Claim, 970*time.Millisecond) // 30 ms are left, the margin is 60
		_, err := c.TryAcquire(w.ctx, "a")
		require.ErrorIs(t, err, lockport.ErrUnavailable)
		require.ErrorContains(t, err, "too late")
		w.nobodyHolds("a")
	})
}

// An attempt may take as long as its claim would last, at most 5 s: a later grant would be useless.
func TestAnAttemptIsBounded(t *testing.T) {
	for ttl, bound := range map[time.Duration]time.Duration{time.Second: time.Second, time.Minute: 5 * time.Second} {
		bubble(t, func(w *world) {
			c := w.on(trying{memorytest.NewBackend(w.server, nil), func(ctx context.Context, _ driver.Request) (driver.Lease, error) {
				<-ctx.Done()
				return nil, fmt.Errorf("%w: no\n\tanswer: %w", driver.ErrUnavailable, ctx.Err())
			}}, lockport.TTL(ttl))
			start := time.Now()
			require.EqualError(t, peer.ErrOf(c.TryAcquire(w.ctx, "a")), `lockport: try "a" (memory): lock server is unavailable: no answer: context deadline exceeded`)
			require.Equal(t, bound, time.Since(start))
		})
	}
}

func TestBadArguments(t *testing.T) {
	_, err := lockport.New(nil)
	require.ErrorContains(t, err, "no backend")
	require.ErrorIs(t, err, lockport.ErrInvalidOption)
	b := memorytest.NewBackend(nil, nil)
	for _, opts := range [][]lockport.Option{{lockport.TTL(time.Microsecond)}, {lockport.MinHold(time.Minute), lockport.MaxHold(time.Second)}} {
		require.ErrorIs(t, peer.ErrOf(lockport.New(b, opts...)), lockport.ErrInvalidOption)
	}
	c := peer.Must(lockport.New(b))(t)
	for _, opts := range [][]lockport.AcquireOption{
		{lockport.TTL(0)}, {lockport.Permits(0)}, {lockport.Permits(1025)}, {lockport.Shared(), lockport.Permits(2)},
	} {
		require.ErrorIs(t, peer.ErrOf(c.TryAcquire(t.Context(), "a", opts...)), lockport.ErrInvalidOption)
	}
	require.EqualError(t, peer.ErrOf(c.TryAcquire(t.Context(), "")), "lockport: try (memory): invalid lock name: it is empty; give it 1 to 1024 bytes")
	require.ErrorContains(t, peer.ErrOf(c.TryAcquire(t.Context(), strings.Repeat("äö", 1024))), `lockport: try "äöäö`)
	require.Zero(t, b.Calls(memorytest.Claim))
	require.NoError(t, c.Close())
}

// A caller that came during another's attempt has waited for a holder once the lock is granted: it rides out an outage.
func TestWhoCameDuringTheClaimHasWaited(t *testing.T) {
	bubble(t, func(w *world) {
		c, b := w.client(lockport.WithoutHandOff())
		b.DelayNext(memorytest.Claim, time.Second)
		first := w.begin(c, "a")
		second := w.begin(c, "a")
		w.sleep(time.Second)
		l := first.got()
		b.Fail(driver.ErrUnavailable)
		require.ErrorIs(t, l.Release(w.ctx), lockport.ErrUnavailable)
		w.sleep(time.Minute)
		require.False(t, second.finished())
		for _, request := range []memorytest.Call{memorytest.Claim, memorytest.Abandon} { // of the second, and of the undoing of the first
			require.InDelta(t, 120, b.Calls(request), 30, "it pauses for up to 500 ms")
		}
		b.Fail(nil)
		w.release(second.got())
	})
}

// A waiter that cannot wait at the server, for want of a connection, asks as seldom as during an outage.
func TestNoPlaceToWait(t *testing.T) {
	bubble(t, func(w *world) {
		b, tries := memorytest.NewBackend(w.server, nil), 0
		b.Fail(driver.ErrUnavailable)
		w.begin(w.on(trying{b, func(context.Context, driver.Request) (driver.Lease, error) {
			tries++
			return nil, driver.ErrHeld
		}}), "a")
		w.sleep(time.Minute)
		require.InDelta(t, 120, tries, 30, "it pauses for up to 500 ms")
	})
}

// A driver forgets a claim without a place in its queue. So the claim is not repeated for a waiter that came meanwhile.
func TestClaimWithoutAPlaceIsNotRepeated(t *testing.T) {
	bubble(t, func(w *world) {
		held := w.acquire(w.other(), "x")
		var owners []string
		b := memorytest.NewBackend(w.server, nil)
		b.DelayNext(memorytest.Claim, time.Second)
		c := w.on(trying{b, func(ctx context.Context, req driver.Request) (driver.Lease, error) {
			owners = append(owners, req.Owner)
			return b.TryAcquire(ctx, req)
		}})
		go func() { _, _ = c.TryAcquire(w.ctx, "x") }()
		synctest.Wait()
		waits := w.begin(c, "x")
		w.sleep(time.Second)
		w.release(held)
		waits.got()
		require.NotEqual(t, owners[0], owners[1])
	})
}
