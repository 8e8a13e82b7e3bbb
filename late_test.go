package lockport_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/backend/memory/memorytest"
	"github.com/lockport/lockport/driver"
)

// stubborn is a backend whose calls of one kind last for an hour, whatever their contexts say. It counts those that run at once for a claim, Abandon
// aside.
type stubborn struct {
	*memorytest.Backend
	kind    memorytest.Call
	running *atomic.Int32
	most    *atomic.Int32
}

func newStubborn(w *world, kind memorytest.Call) stubborn {
	return stubborn{memorytest.NewBackend(w.server, nil), kind, new(atomic.Int32), new(atomic.Int32)}
}

func (b stubborn) call(kind memorytest.Call) {
	b.most.Store(max(b.most.Load(), b.running.Add(1)))
	defer b.running.Add(-1)
	if kind == b.kind {
		time.Sleep(time.Hour)
	}
}

func (b stubborn) Capabilities() driver.Capabilities { return notPrompt{b.Backend}.Capabilities() }

func (b stubborn) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	b.call(memorytest.Claim)
	l, err := b.Backend.TryAcquire(ctx, req)
	if err != nil {
		return nil, err
	}
	return stubbornLease{l, b}, nil
}

func (b stubborn) RenewBatch(ctx context.Context, leases []driver.Lease, results []driver.Renewal) {
	b.call(memorytest.Renew)
	inner := make([]driver.Lease, len(leases))
	for i, l := range leases {
		inner[i] = l.(stubbornLease).Lease
	}
	b.Backend.RenewBatch(ctx, inner, results)
}

func (b stubborn) Inspect(ctx context.Context, name string) (driver.Status, error) {
	b.call(memorytest.Look)
	return b.Backend.Inspect(ctx, name)
}

func (b stubborn) List(ctx context.Context, prefix string) ([]driver.Status, error) {
	b.call(memorytest.Look)
	return b.Backend.List(ctx, prefix)
}

func (b stubborn) Break(ctx context.Context, name, owner string) error {
	b.call(memorytest.Look)
	return b.Backend.Break(ctx, name, owner)
}

func (b stubborn) Check(ctx context.Context) ([]driver.Notice, error) {
	b.call(memorytest.Look)
	return b.Backend.Check(ctx)
}

type stubbornLease struct {
	driver.Lease
	b stubborn
}

func (l stubbornLease) Release(ctx context.Context) error {
	l.b.call(memorytest.Release)
	return l.Lease.Release(ctx)
}

// No caller waits for a client library that ignores contexts, and no claim has two calls under way at once.
func TestNobodyWaitsForALateBackend(t *testing.T) {
	calls := map[string]func(context.Context, *lockport.Client) error{
		"acquire": func(ctx context.Context, c *lockport.Client) error { _, err := c.Acquire(ctx, "a"); return err },
		"try":     func(ctx context.Context, c *lockport.Client) error { _, err := c.TryAcquire(ctx, "a"); return err },
		"inspect": func(ctx context.Context, c *lockport.Client) error { _, err := c.Inspect(ctx, "a"); return err },
		"list":    func(ctx context.Context, c *lockport.Client) error { _, err := c.List(ctx, ""); return err },
		"break":   func(ctx context.Context, c *lockport.Client) error { return c.Break(ctx, "a", "somebody") },
		"check":   func(ctx context.Context, c *lockport.Client) error { return c.Check(ctx) },
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kind := memorytest.Look
				if name == "acquire" || name == "try" {
					kind = memorytest.Claim
				}
				w := &world{T: t, ctx: t.Context(), server: memory.NewServer()}
				c, err := lockport.New(newStubborn(w, kind), lockport.TTL(ttl), lockport.Logger(nil))
				require.NoError(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				start := time.Now()
				err = call(ctx, c)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorIs(t, err, lockport.ErrUnavailable)
				require.Equal(t, time.Second, time.Since(start))
				_ = c.Close()
				require.Less(t, time.Since(start), 12*time.Second)
				w.sleep(2 * time.Hour) // the calls end after all
				_, err = c.Inspect(t.Context(), "a")
				require.ErrorIs(t, err, lockport.ErrClosed)
			})
		})
	}
	for _, kind := range []memorytest.Call{memorytest.Release, memorytest.Renew} {
		synctest.Test(t, func(t *testing.T) {
			w := &world{T: t, ctx: t.Context(), server: memory.NewServer()}
			b := newStubborn(w, kind)
			c, err := lockport.New(b, lockport.TTL(ttl), lockport.Logger(nil))
			require.NoError(t, err)
			l := w.acquire(c, "a")
			w.sleep(ttl / 2) // a renewal is under way
			start := time.Now()
			require.ErrorIs(t, l.Release(t.Context()), lockport.ErrUnavailable)
			require.LessOrEqual(t, time.Since(start), 5100*time.Millisecond)
			_ = c.Close()
			w.sleep(3 * time.Hour)
			require.EqualValues(t, 1, b.most.Load())
			w.nobodyHolds("a")
		})
	}
}

// A lease that ends, and that neither it nor its backend can renew, is not taken.
func TestLeaseThatNothingCanRenew(t *testing.T) {
	bubble(t, func(w *world) {
		b := remade{memorytest.NewBackend(w.server, nil), func(l driver.Lease) driver.Lease { return struct{ driver.Lease }{l} }}
		c, err := lockport.New(b, lockport.TTL(ttl), lockport.Logger(nil))
		require.NoError(t, err)
		_, err = c.Acquire(w.ctx, "a")
		require.ErrorContains(t, err, "driver.Renewer")
		require.NoError(t, c.Close())
		w.nobodyHolds("a")
	})
}

// Requests have the values of the caller that they are made for, as tracers need them, and not the end of its context where that would undo them.
func TestValuesReachTheDriver(t *testing.T) {
	type key struct{}
	bubble(t, func(w *world) {
		holder, _ := w.client()
		b := keeps{memorytest.NewBackend(w.server, nil), new([]context.Context)}
		var d driver.Backend = b
		if w.tardy {
			d = notPrompt{b}
		}
		c, err := lockport.New(d, lockport.TTL(ttl), lockport.Logger(nil))
		require.NoError(t, err)
		l := w.acquire(holder, "a")
		ctx, cancel := context.WithCancel(context.WithValue(w.ctx, key{}, "mine"))
		done := make(chan *lockport.Lock)
		go func() {
			got, err := c.Acquire(ctx, "a")
			require.NoError(t, err)
			done <- got
		}()
		w.sleep(time.Second)
		w.release(l)
		got := <-done
		cancel() // the work is cancelled; the lock is given back all the same
		require.NoError(t, got.Release(ctx))
		require.GreaterOrEqual(t, len(*b.contexts), 3)
		for _, ctx := range *b.contexts {
			require.Equal(t, "mine", ctx.Value(key{}))
		}
		require.NoError(t, c.Close())
	})
}

// notifying is a backend that tells of every release, and has no queue.
type notifying struct {
	driver.Backend
	wakes *sync.Map
}

func (b notifying) Capabilities() driver.Capabilities {
	caps := b.Backend.Capabilities()
	caps.Wake, caps.Fair, caps.Queue = driver.WakeNotify, driver.FairNone, false
	return caps
}

func (b notifying) Notify(req driver.Request, wake func()) (stop func()) {
	b.wakes.Store(req.Owner, wake)
	return func() { b.wakes.Delete(req.Owner) }
}

// A waiter that is told looks at once, and otherwise after a second, or when the holder's claim ends; one that nobody tells four times a second.
func TestWhenAWaiterLooksAgain(t *testing.T) {
	for name, c := range map[string]struct {
		wake driver.WakeMode
		tell bool
		most time.Duration
	}{
		"told":          {driver.WakeNotify, true, 0},
		"not told":      {driver.WakeNotify, false, 1100 * time.Millisecond},
		"nobody tells":  {driver.WakePoll, false, 275 * time.Millisecond},
		"beyond bounds": {driver.WakeQueueOrPoll, false, 275 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				holder, _ := w.client()
				l := w.acquire(holder, "a")
				b := notifying{memorytest.NewBackend(w.server, nil), new(sync.Map)}
				var d driver.Backend = b
				if c.wake.Polls() {
					d = polling{b.Backend, c.wake}
				}
				client, err := lockport.New(d, lockport.TTL(ttl), lockport.Logger(nil))
				require.NoError(t, err)
				waiting := w.begin(client, "a")
				w.sleep(700 * time.Millisecond)
				w.release(l)
				start := time.Now()
				if c.tell {
					b.wakes.Range(func(_, wake any) bool { wake.(func())(); return true })
				}
				got := waiting.got()
				require.LessOrEqual(t, time.Since(start), c.most)
				w.release(got)
				require.NoError(t, client.Close())
				b.wakes.Range(func(any, any) bool { t.Error("hints go on"); return true })
			})
		})
	}
}

// polling is a backend of which waiters look again and again.
type polling struct {
	driver.Backend
	wake driver.WakeMode
}

func (b polling) Capabilities() driver.Capabilities {
	caps := b.Backend.Capabilities()
	caps.Wake, caps.Fair, caps.Queue = b.wake, driver.FairNone, false
	return caps
}

func (b polling) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	l, err := b.Backend.TryAcquire(ctx, req)
	if errors.Is(err, driver.ErrHeld) {
		err = driver.ErrHeld // without a time
	}
	return l, err
}

// Of many locks of all TTLs each is renewed in time, and each ends when its MaxHold says so.
func TestManyTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, ctx: t.Context(), server: memory.NewServer()}
		var mu sync.Mutex
		ended := make(map[string]time.Duration)
		c, _ := w.client(lockport.Observe(lockport.Hooks{Lost: func(e lockport.HoldEvent) {
			mu.Lock()
			defer mu.Unlock()
			ended[e.Name] = e.Held
		}}))
		most := make(map[string]time.Duration)
		for i := range 200 {
			name := fmt.Sprint(i)
			most[name] = time.Minute + rand.N(time.Hour)
			w.acquire(c, name, lockport.TTL(time.Second+rand.N(time.Minute)), lockport.MaxHold(most[name]))
			w.sleep(rand.N(time.Second))
		}
		w.sleep(2 * time.Hour)
		require.Equal(t, most, ended)
	})
}
