package lockport_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lab/peer"
)

// A hold that ended before its caller, who gives up, has seen it counts for the hooks like every other.
func TestHooksOfAHoldThatEndsUnseen(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that the caller does not run before Close has ended its hold
	bubble(t, func(w *world) {
		for range 10 {
			var held atomic.Int64
			ends := func(lockport.HoldEvent) { held.Add(-1) }
			c, _ := w.client(lockport.Observe(lockport.Hooks{Released: ends, Lost: ends, AcquireDone: func(_ context.Context, e lockport.AcquireEvent) {
				if e.Err == nil {
					held.Add(1)
				}
			}}))
			first := w.acquire(c, "x")
			waits := w.begin(c, "x")
			waits.cancel()
			w.release(first)
			require.NoError(t, c.Close())
			<-waits.done
			require.Zero(t, held.Load())
		}
	})
}

func TestHooks(t *testing.T) {
	bubble(t, func(w *world) {
		type key struct{}
		var started []string
		var acquired []lockport.AcquireEvent
		var releases, losses []lockport.HoldEvent
		var renewals []lockport.RenewEvent
		c, b := w.client(lockport.Observe(lockport.Hooks{
			AcquireStart: func(ctx context.Context, e lockport.AcquireEvent) context.Context {
				require.Equal(t, lockport.AcquireEvent{Backend: "memory", Name: e.Name}, e)
				started = append(started, e.Name)
				return context.WithValue(ctx, key{}, e.Name)
			},
			AcquireDone: func(ctx context.Context, e lockport.AcquireEvent) {
				require.Equal(t, e.Name, ctx.Value(key{}))
				acquired = append(acquired, e)
			},
			Released: func(e lockport.HoldEvent) { releases = append(releases, e) },
			Lost:     func(e lockport.HoldEvent) { losses = append(losses, e) },
			Renewed:  func(r lockport.RenewEvent) { renewals = append(renewals, r) },
		}))
		l := w.acquire(c, "a")
		token := w.token(l)
		w.sleep(5 * time.Second)
		w.release(l)
		l = w.acquire(c, "b")
		b.Server().Lose("b", errors.New("by a test"))
		synctest.Wait()
		require.Error(t, peer.ErrOf(c.TryAcquire(w.ctx, "\xff")))
		require.Equal(t, []string{"a", "b", "\xff"}, started)
		require.Len(t, acquired, 3)
		require.Equal(t, lockport.AcquireEvent{Backend: "memory", Name: "a", Token: token}, acquired[0])
		require.ErrorIs(t, acquired[2].Err, lockport.ErrInvalidName)
		require.Equal(t, []int{1, 1, 1}, []int{len(releases), len(losses), len(renewals)})
		released, lost := releases[0], losses[0]
		require.Equal(t, lockport.HoldEvent{Context: released.Context, Backend: "memory", Name: "a", Held: 5 * time.Second, Token: token}, released)
		require.Equal(t, lockport.HoldEvent{Context: lost.Context, Backend: "memory", Name: "b", Token: w.token(l), Err: lost.Err}, lost)
		require.ErrorIs(t, lost.Err, lockport.ErrLost)
		require.Equal(t, lockport.RenewEvent{Backend: "memory", Name: "a", TTL: ttl, Left: renewals[0].Left}, renewals[0])
		require.Positive(t, renewals[0].Left)
		require.Equal(t, "a", released.Context.Value(key{}), "what AcquireStart returned")
		require.Equal(t, "b", lost.Context.Value(key{}))
	})
}

// The hooks see every hold end once, however it ends. The hooks of several Observe are all called.
func TestHooksAreInPairs(t *testing.T) {
	bubble(t, func(w *world) {
		var began, ended, second atomic.Int64
		var mu sync.Mutex
		var reasons []string
		over := func(e lockport.HoldEvent) { ended.Add(1); require.NotNil(t, e.Context) }
		count := lockport.Hooks{
			AcquireDone: func(_ context.Context, e lockport.AcquireEvent) {
				if e.Err == nil {
					began.Add(1)
				}
			},
			Released: over, Lost: over,
		}
		c, b := w.client(lockport.Observe(lockport.Hooks{}), lockport.Observe(count), lockport.Observe(lockport.Hooks{
			AcquireStart: func(ctx context.Context, _ lockport.AcquireEvent) context.Context { second.Add(1); return ctx },
			AcquireDone:  func(context.Context, lockport.AcquireEvent) { second.Add(1) },
			Lost: func(e lockport.HoldEvent) {
				second.Add(1)
				mu.Lock()
				defer mu.Unlock()
				reasons = append(reasons, e.Reason())
			},
		}))
		inner := func(outer *lockport.Lock) *lockport.Lock {
			return peer.Must(c.Acquire(lockport.WithLock(w.ctx, outer), outer.Name(), lockport.Reenter()))(t)
		}
		detached := w.acquire(c, "detached")
		ticket := peer.Must(detached.Detach(w.ctx))(t)
		attached := peer.Must(c.Attach(w.ctx, ticket))(t)
		waiting := w.begin(c, "detached")
		w.release(attached)
		w.release(waiting.got())
		w.release(inner(w.acquire(c, "closed")))
		inner(w.acquire(c, "closed with its inner hold"))
		inner(w.acquire(c, "lost"))
		b.Server().Lose("lost", errors.New("by a test"))
		outer := w.acquire(c, "outer")
		inner(outer)
		w.release(outer)
		w.acquire(c, "reader", lockport.Shared())
		w.acquire(c, "reader", lockport.Shared())
		require.NoError(t, c.Close())
		require.EqualValues(t, 13, began.Load())
		require.EqualValues(t, 13, ended.Load())
		require.EqualValues(t, 2*13+3, second.Load())
		require.ElementsMatch(t, []string{"removed", "removed", "outer_released"}, reasons)
	})
}

func TestWordsForMetrics(t *testing.T) {
	cases := map[string][]error{
		"acquired":    {nil},
		"canceled":    {fmt.Errorf("%w while waiting: %w", context.Canceled, lockport.ErrHeld)},
		"unavailable": {fmt.Errorf("%w: %w", context.DeadlineExceeded, lockport.ErrUnavailable)},
		"timeout":     {fmt.Errorf("%w while waiting: %w", context.DeadlineExceeded, lockport.ErrHeld)},
		"held":        {lockport.ErrHeld},
		"refused":     {lockport.ErrRefused},
		"closed":      {lockport.ErrClosed},
		"lost":        {lockport.ErrLost},
		"invalid":     {lockport.ErrInvalidName, lockport.ErrInvalidOption, errors.ErrUnsupported},
	}
	for word, errs := range cases {
		for _, err := range errs {
			require.Equal(t, word, lockport.AcquireEvent{Err: err}.Outcome())
		}
	}
	require.Equal(t, []string{"silence", "max_hold", "outer_released", "removed"}, lockport.LossReasons())
	for word, err := range map[string]error{"silence": lockport.ErrSilence, "max_hold": lockport.ErrMaxHold, "removed": errors.New("by a test")} {
		require.Equal(t, word, lockport.HoldEvent{Err: fmt.Errorf("%w: %w", lockport.ErrLost, err)}.Reason())
	}
}
