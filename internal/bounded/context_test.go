package bounded

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

var errWhy = errors.New("why")

func isDone(c context.Context) bool {
	select {
	case <-c.Done():
		return true
	default:
		return false
	}
}

// in is the instant after d.
func in(d time.Duration) time.Time { return time.Now().Add(d) }

// requireEnded says that c has ended with err because of cause, in every way in which it can be asked.
func requireEnded(t *testing.T, c context.Context, err, cause error) {
	t.Helper()
	require.Equal(t, err, c.Err())
	require.True(t, isDone(c))
	require.Equal(t, err, c.Err(), "it does not change")
	require.Equal(t, cause, context.Cause(c))
}

func requireAlive(t *testing.T, c context.Context) {
	t.Helper()
	require.NoError(t, c.Err())
	require.False(t, isDone(c))
	require.NoError(t, context.Cause(c))
}

// askings are the ways in which a context is used before its end: nobody has asked for Done, or somebody has.
var askings = map[string]func(*Context){
	"unasked": func(*Context) {},
	"asked":   func(c *Context) { c.Done() },
}

// each runs f in a bubble for each of askings.
func each(t *testing.T, f func(t *testing.T, ask func(*Context))) {
	t.Helper()
	for name, ask := range askings {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { f(t, ask) }) })
	}
}

func TestEndsAtItsDeadline(t *testing.T) {
	each(t, func(t *testing.T, ask func(*Context)) {
		var timers Timers
		for _, make := range []func(context.Context, time.Time) *Context{timers.Under, timers.Beside} {
			c := make(t.Context(), in(time.Second))
			deadline, ok := c.Deadline()
			require.True(t, ok)
			require.True(t, deadline.Equal(in(time.Second)))
			ask(c)
			time.Sleep(time.Second - 1)
			require.NoError(t, c.Err())
			time.Sleep(1 * time.Nanosecond)
			requireEnded(t, c, context.DeadlineExceeded, context.DeadlineExceeded)
			c.Cancel()
			requireEnded(t, c, context.DeadlineExceeded, context.DeadlineExceeded)
		}
	})
}

// Who waits on Done is woken at the deadline, not later.
func TestDoneIsClosedAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var timers Timers
		for range 3 { // also with a timer that was used before
			start := time.Now()
			c := timers.Under(context.Background(), in(time.Second))
			<-c.Done()
			require.Equal(t, time.Second, time.Since(start))
			cancelled := timers.Under(context.Background(), in(time.Second))
			cancelled.Done()
			cancelled.Cancel()
			requireEnded(t, cancelled, context.Canceled, context.Canceled)
		}
	})
}

func TestDeadlineThatHasPassed(t *testing.T) {
	var timers Timers
	for _, d := range []time.Duration{0, -time.Second} {
		requireEnded(t, timers.Under(context.Background(), in(d)), context.DeadlineExceeded, context.DeadlineExceeded)
	}
}

func TestCancel(t *testing.T) {
	each(t, func(t *testing.T, ask func(*Context)) {
		var timers Timers
		c := timers.Under(t.Context(), in(time.Second))
		ask(c)
		requireAliveUnasked(t, c)
		c.Cancel()
		requireEnded(t, c, context.Canceled, context.Canceled)
		c.Cancel()
		time.Sleep(time.Minute)
		requireEnded(t, c, context.Canceled, context.Canceled)
	})
}

// requireAliveUnasked is requireAlive without asking for Done.
func requireAliveUnasked(t *testing.T, c context.Context) {
	t.Helper()
	require.NoError(t, c.Err())
	require.NoError(t, context.Cause(c))
}

func TestEndsWithItsParent(t *testing.T) {
	each(t, func(t *testing.T, ask func(*Context)) {
		var timers Timers
		parent, end := context.WithCancelCause(t.Context())
		c := timers.Under(parent, in(time.Second))
		ask(c)
		requireAliveUnasked(t, c)
		end(errWhy)
		requireEnded(t, c, context.Canceled, errWhy) // at once, whatever goroutines have not run yet
		requireEnded(t, timers.Under(parent, in(time.Second)), context.Canceled, errWhy)
	})
}

// Its own end came first: neither the parent's, nor the parent's cause, is its own.
func TestParentEndsLater(t *testing.T) {
	each(t, func(t *testing.T, ask func(*Context)) {
		var timers Timers
		parent, end := context.WithCancelCause(t.Context())
		late, left := timers.Under(parent, in(time.Second)), timers.Under(parent, in(time.Hour))
		ask(late)
		ask(left)
		left.Cancel()
		time.Sleep(time.Second)
		require.Equal(t, context.DeadlineExceeded, late.Err())
		end(errWhy)
		requireEnded(t, late, context.DeadlineExceeded, context.DeadlineExceeded)
		requireEnded(t, left, context.Canceled, context.Canceled)
	})
}

type key struct{}

func TestBesideHasOnlyTheValues(t *testing.T) {
	each(t, func(t *testing.T, ask func(*Context)) {
		var timers Timers
		parent, end := context.WithCancelCause(context.WithValue(t.Context(), key{}, "value"))
		c := timers.Beside(parent, in(time.Second))
		ask(c)
		require.Equal(t, "value", c.Value(key{}))
		end(errWhy)
		requireAlive(t, c)
		requireEnded(t, timers.Beside(parent, in(0)), context.DeadlineExceeded, context.DeadlineExceeded)
		time.Sleep(time.Second)
		requireEnded(t, c, context.DeadlineExceeded, context.DeadlineExceeded)
		require.Equal(t, "value", c.Value(key{}))
		require.Nil(t, c.Value("another"))
	})
}

func TestNoDeadline(t *testing.T) {
	each(t, func(t *testing.T, ask func(*Context)) {
		var timers Timers
		parent, end := context.WithCancel(t.Context())
		c := timers.Under(parent, time.Time{})
		_, ok := c.Deadline()
		require.False(t, ok)
		ask(c)
		time.Sleep(1000 * time.Hour)
		require.NoError(t, c.Err())
		end()
		requireEnded(t, c, context.Canceled, context.Canceled)
	})
}

// A parent that ends sooner sets the deadline, and its cause is ours.
func TestDeadlineOfTheParent(t *testing.T) {
	each(t, func(t *testing.T, ask func(*Context)) {
		var timers Timers
		for _, own := range []time.Time{{}, in(time.Minute)} {
			parent, cancel := context.WithDeadlineCause(t.Context(), in(time.Second), errWhy)
			defer cancel()
			c := timers.Under(parent, own)
			deadline, _ := c.Deadline()
			require.True(t, deadline.Equal(in(time.Second)))
			ask(c)
			require.NoError(t, c.Err())
			time.Sleep(time.Second)
			require.Equal(t, context.DeadlineExceeded, c.Err())
			synctest.Wait()
			requireEnded(t, c, context.DeadlineExceeded, errWhy)
		}
	})
}

// undead has a deadline but never ends.
type undead struct {
	context.Context
	deadline time.Time
}

func (u undead) Deadline() (time.Time, bool) { return u.deadline, true }

func TestParentThatDoesNotKeepItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var timers Timers
		start := time.Now()
		c := timers.Under(undead{context.Background(), in(time.Second)}, in(time.Minute))
		<-c.Done()
		require.Equal(t, time.Second, time.Since(start))
	})
}

func TestAfterFunc(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var timers Timers
		c := timers.Under(context.Background(), in(time.Second))
		var mu sync.Mutex
		called := map[string]int{}
		call := func(name string) func() {
			return func() {
				mu.Lock()
				defer mu.Unlock()
				called[name]++
			}
		}
		stopFirst := context.AfterFunc(c, call("first"))
		stopSecond := context.AfterFunc(c, call("second"))
		stopThird := c.AfterFunc(call("third"))
		stopFourth := c.AfterFunc(call("fourth"))
		require.True(t, stopSecond())
		require.False(t, stopSecond())
		require.True(t, stopThird())
		require.False(t, stopThird())
		time.Sleep(time.Second)
		synctest.Wait()
		require.False(t, stopFirst())
		require.False(t, stopFourth())
		require.Equal(t, map[string]int{"first": 1, "fourth": 1}, called)
		stopFifth := c.AfterFunc(call("fifth"))
		synctest.Wait()
		require.False(t, stopFifth())
		require.Equal(t, 1, called["fifth"])
	})
}

// Contexts that derive from one end with it, and know why, without goroutines of their own.
func TestChildren(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var timers Timers
		grandparent, end := context.WithCancelCause(context.Background())
		parent := timers.Under(grandparent, in(time.Hour))
		parent.Done()
		synctest.Wait()
		before := runtime.NumGoroutine()
		var children []context.Context
		for i := range 100 {
			child, cancel := context.WithCancel(parent)
			defer cancel()
			if i%2 == 0 {
				cancel()
				requireEnded(t, child, context.Canceled, context.Canceled)
				continue
			}
			own := timers.Under(child, in(time.Minute))
			own.Done()
			children = append(children, child, own)
		}
		synctest.Wait()
		require.LessOrEqual(t, runtime.NumGoroutine(), before+10, "100 more, if each had one")
		require.Len(t, parent.after, 50)
		end(errWhy)
		synctest.Wait()
		for _, c := range children {
			requireEnded(t, c, context.Canceled, errWhy)
		}
	})
}

// A context that was cancelled leaves nothing with its parent, and no timer that would keep it.
func TestCancelLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var timers Timers
		root := timers.Under(context.Background(), in(time.Hour))
		defer root.Cancel()
		for range 100 {
			c := timers.Under(root, in(time.Second))
			c.Done()
			require.Len(t, root.after, 1)
			alarm := c.alarm
			c.Cancel()
			require.Empty(t, root.after)
			require.Nil(t, alarm.rings)
			require.False(t, alarm.timer.Stop(), "it was stopped")
			require.Nil(t, c.alarm)
			require.Nil(t, c.leave)
		}
		unasked := timers.Under(root, in(time.Second))
		require.NoError(t, unasked.Err())
		require.Nil(t, unasked.alarm, "who does not wait costs no timer")
		unasked.Cancel()
		unasked.Done()
		require.Nil(t, unasked.alarm)
	})
}

// Everything at once, for the race detector: each context ends once, everybody sees the same end, and nothing stays.
func TestEndsOnceWhoeverEndsIt(t *testing.T) {
	var timers Timers
	for i := range 2000 {
		parent, end := context.WithCancelCause(context.Background())
		c := timers.Under(parent, in(time.Duration(i%7)*10*time.Microsecond))
		var work sync.WaitGroup
		called := make(chan struct{})
		work.Go(func() { context.AfterFunc(c, func() { close(called) }) })
		work.Go(func() { context.AfterFunc(c, func() {})() })
		work.Go(func() { <-c.Done() })
		work.Go(c.Cancel)
		work.Go(func() { end(errWhy) })
		work.Go(func() {
			child, cancel := context.WithCancel(c)
			defer cancel()
			<-child.Done()
			if child.Err() != c.Err() {
				t.Error("the child has ended otherwise")
			}
		})
		work.Go(func() { _, _ = c.Value(key{}), fmt.Sprint(c) })
		work.Wait()
		<-called
		c.mu.Lock()
		require.Error(t, c.err)
		require.Nil(t, c.alarm)
		require.Empty(t, c.after)
		c.mu.Unlock()
		if err := c.Err(); err == context.DeadlineExceeded {
			require.Equal(t, err, context.Cause(c))
		}
	}
}

// What a request costs that nobody has to be told about, and one whose Done is asked for.
func TestAllocations(t *testing.T) {
	var timers Timers
	parent := context.Background()
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		c := timers.Under(parent, in(time.Second))
		_ = c.Err()
		c.Cancel()
	}), 1.0)
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { // 2, and 3 where the pool has no timer
		c := timers.Beside(parent, in(time.Second))
		c.Done()
		c.Cancel()
	}), 5.0)
}
