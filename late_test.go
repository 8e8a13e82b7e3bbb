package lockport_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/backend/memory/memorytest"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
)

// stubborn makes a client whose calls of method last an hour and ignore their contexts. most is the largest number that ran at once. Even a prompt
// backend's Attach may be late.
func (w *world) stubborn(most *int32, method string) *lockport.Client {
	var running atomic.Int32
	w.tardy = w.tardy || method != "Attach"
	return w.on(w.around(func(c call) error {
		if c.method == "Abandon" { // it may be called beside another
			return c.do()
		}
		*most = max(*most, running.Add(1))
		defer running.Add(-1)
		if c.method == method {
			time.Sleep(time.Hour)
		}
		return c.do()
	}))
}

// No caller waits for a client library that ignores contexts, and a claim never has two calls under way.
func TestNobodyWaitsForALateBackend(t *testing.T) {
	calls := map[string]func(ctx context.Context, c *lockport.Client, ticket string) error{
		"TryAcquire": func(ctx context.Context, c *lockport.Client, _ string) error { return peer.ErrOf(c.Acquire(ctx, "a")) },
		"TryAcquire, without waiting": func(ctx context.Context, c *lockport.Client, _ string) error {
			return peer.ErrOf(c.TryAcquire(ctx, "a"))
		},
		"Inspect": func(ctx context.Context, c *lockport.Client, _ string) error { return peer.ErrOf(c.Inspect(ctx, "a")) },
		"Check":   func(ctx context.Context, c *lockport.Client, _ string) error { return c.Check(ctx) },
		"Attach": func(ctx context.Context, c *lockport.Client, ticket string) error {
			return peer.ErrOf(c.Attach(ctx, ticket))
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				ticket := peer.Must(w.acquire(w.other(), "b").Detach(w.ctx))(t)
				method, _, _ := strings.Cut(name, ",")
				c := w.stubborn(new(int32), method)
				start := time.Now()
				err := call(w.within(time.Second).ctx, c, ticket)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorIs(t, err, lockport.ErrUnavailable)
				require.Equal(t, time.Second, time.Since(start))
				_ = c.Close()
				require.Less(t, time.Since(start), 12*time.Second)
				if method == "TryAcquire" || method == "Attach" { // they end without the caller's context
					c, start := w.stubborn(new(int32), method), time.Now()
					err := call(w.ctx, c, ticket)
					require.ErrorIs(t, err, lockport.ErrUnavailable)
					require.NotErrorIs(t, err, context.DeadlineExceeded, "no context of the caller's has ended")
					require.LessOrEqual(t, time.Since(start), 5100*time.Millisecond)
					_ = c.Close()
				}
				w.sleep(2 * time.Hour) // the calls end after all
				require.ErrorIs(t, peer.ErrOf(c.Inspect(w.ctx, "a")), lockport.ErrClosed)
			})
		})
	}
	for method, detached := range map[string]error{"Release": nil, "RenewBatch": lockport.ErrUnavailable} {
		bubble(t, func(w *world) {
			var most int32
			c := w.stubborn(&most, method)
			l, other := w.acquire(c, "a"), w.acquire(w.stubborn(new(int32), method), "b")
			w.sleep(ttl / 2) // a renewal is under way
			start := time.Now()
			_, err := other.Detach(w.ctx)
			require.ErrorIs(t, err, detached)
			require.NotErrorIs(t, err, context.DeadlineExceeded, "no context of the caller's has ended")
			require.LessOrEqual(t, time.Since(start), 2*time.Second)
			start = time.Now()
			err = l.Release(w.ctx)
			require.ErrorIs(t, err, lockport.ErrUnavailable)
			require.NotErrorIs(t, err, context.DeadlineExceeded, "no context of the caller's has ended")
			require.LessOrEqual(t, time.Since(start), 5100*time.Millisecond)
			_ = c.Close()
			w.sleep(3 * time.Hour)
			require.EqualValues(t, 1, most)
			w.nobodyHolds("a")
		})
	}
}

// lingering is a backend whose Close takes an hour.
type lingering struct{ driver.Backend }

func (lingering) Close() error { time.Sleep(time.Hour); return nil }

func TestCloseLeavesALateBackend(t *testing.T) {
	bubble(t, func(w *world) {
		start := time.Now()
		err := w.on(lingering{memory.NewBackend(memory.Options{})}).Close()
		require.ErrorIs(t, err, lockport.ErrUnavailable)
		require.NotErrorIs(t, err, context.DeadlineExceeded, "no context of the caller's has ended")
		require.Equal(t, 5*time.Second, time.Since(start))
		w.sleep(time.Hour)
	})
}

// bare is a lease without Renew.
type bare struct {
	driver.Lease
	until time.Time
}

func (b bare) Grant() driver.Grant { return driver.Grant{Until: b.until} }

// The client refuses a lease that expires and that nothing can renew. One that does not expire is not renewed, not even when the MaxHold of another
// reader ends.
func TestLeaseThatNothingCanRenew(t *testing.T) {
	bubble(t, func(w *world) {
		b, until := memorytest.NewBackend(w.server, nil), time.Now().Add(ttl)
		c := w.on(plain{trying{b, func(ctx context.Context, req driver.Request) (driver.Lease, error) {
			lease, err := b.TryAcquire(ctx, req)
			return bare{lease, until}, err
		}}})
		require.ErrorContains(t, peer.ErrOf(c.Acquire(w.ctx, "a")), "driver.Renewer")
		w.nobodyHolds("a")
		until = time.Time{}
		brief := w.acquire(c, "a", lockport.Shared(), lockport.MaxHold(time.Second))
		w.sleep(time.Second / 2)
		l := w.acquire(c, "a", lockport.Shared(), lockport.MaxHold(math.MaxInt64))
		w.sleep(time.Second)
		require.ErrorIs(t, brief.Err(), lockport.ErrMaxHold)
		_, ok := l.Deadline()
		require.False(t, ok)
		w.release(l)
	})
}

// notifying is a backend that can notify.
type notifying struct {
	driver.Backend
	wakes *sync.Map
}

func (b notifying) Unwrap() driver.Backend { return b.Backend }

func (b notifying) Notify(req driver.Request, wake func()) (stop func()) {
	b.wakes.Store(req.Owner, wake)
	return func() { b.wakes.Delete(req.Owner) }
}

// A waiter tries again when notified, and once a second.
func TestWhenAWaiterLooksAgain(t *testing.T) {
	for told, most := range map[bool]time.Duration{true: 0, false: 1100 * time.Millisecond} {
		bubble(t, func(w *world) {
			l := w.acquire(w.other(), "a")
			b := notifying{plain{stating{memorytest.NewBackend(w.server, nil), func(caps *driver.Capabilities) {
				caps.Wake, caps.Fair, caps.Queue = driver.WakeNotify, driver.FairNone, false
			}}}, new(sync.Map)}
			client := w.on(b)
			waiting := w.begin(client, "a")
			w.sleep(700 * time.Millisecond)
			w.release(l)
			start := time.Now()
			if told {
				b.wakes.Range(func(_, wake any) bool { wake.(func())(); return true })
			}
			got := waiting.got()
			require.LessOrEqual(t, time.Since(start), most)
			w.release(got)
			require.NoError(t, client.Close())
			b.wakes.Range(func(any, any) bool { t.Error("hints go on"); return true })
		})
	}
}

// How often a waiter polls, if nobody wakes it: as the backend says, as the answer says, and when the lock expires.
func TestWhenAWaiterPolls(t *testing.T) {
	for _, v := range []struct {
		wake  driver.WakeMode
		held  driver.HeldError
		polls int // in ten seconds
	}{
		{wake: driver.WakeNotify, polls: 10}, {wake: driver.WakePoll, polls: 40},
		{held: driver.HeldError{Poll: 100 * time.Millisecond}, polls: 100}, {held: driver.HeldError{ExpiresIn: 50 * time.Millisecond}, polls: 196},
	} {
		bubble(t, func(w *world) {
			b, polls := memorytest.NewBackend(w.server, nil), 0
			c := w.on(notifying{plain{stating{trying{b, func(context.Context, driver.Request) (driver.Lease, error) {
				polls++
				return nil, &v.held
			}}, func(caps *driver.Capabilities) { caps.Wake, caps.Fair, caps.Queue = v.wake, driver.FairNone, false }}}, new(sync.Map)})
			w.within(10*time.Second).begin(c, "a")
			w.sleep(10 * time.Second)
			require.InDelta(t, v.polls, polls, float64(v.polls)/5)
		})
	}
}

// Many locks with different TTLs are each renewed in time, and each ends at its MaxHold.
func TestManyTimers(t *testing.T) {
	bubble(t, func(w *world) {
		var mu sync.Mutex
		ended := make(map[string]time.Duration)
		c, _ := w.client(lockport.Observe(lockport.Hooks{Lost: func(e lockport.HoldEvent) {
			mu.Lock()
			defer mu.Unlock()
			ended[e.Name] = e.Held
		}}))
		w.acquire(c, "first")
		brief := w.acquire(c, "brief", lockport.TTL(100*time.Millisecond)) // due before the timer would fire for the first
		w.sleep(time.Second)
		w.release(brief)
		most := make(map[string]time.Duration)
		for i := range 200 {
			name := fmt.Sprint(i)
			most[name] = time.Minute + rand.N(10*time.Minute)
			w.acquire(c, name, lockport.TTL(time.Second+rand.N(time.Minute)), lockport.MaxHold(most[name]))
			w.sleep(rand.N(time.Second))
		}
		w.sleep(20 * time.Minute)
		require.Equal(t, most, ended)
	})
}
