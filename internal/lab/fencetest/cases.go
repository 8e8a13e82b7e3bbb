package fencetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/fence"
	"github.com/lockport/lockport/internal/lab/peer"
)

// Subject is a store, and how its fences work on the server.
type Subject struct {
	Place
	Errors
	Addr   string                   // the server's address in Place.Store
	Max    lockport.Token           // the greatest token that a fence accepts; 0: any
	Layout string                   // of a stored token: "%d", or "%020d"
	Text   func(name string) string // what the fence stores
	Remove func(name string)        // removes the fence
	Odd    []string                 // values that are no token
	Put    func(name, odd string)   // stores odd in the fence
	Beside bool                     // Put stores odd beside the token, which stays
	// Transactional: a guard is a statement of the caller's transaction. It knows the token alone and no lock. It creates a missing fence, and its
	// errors are the database client's.
	Transactional bool
}

// fixture is a subject in a test, with one name of its store.
type fixture struct {
	*testing.T
	Subject
	*Store
	name string
}

// Cases checks a store with guards against the promises of all fences. The test must import backend/memory, for locks of another backend.
func Cases(t *testing.T, s Subject) {
	cases := map[string]func(*fixture){
		"OlderHolder": olderHolder, "Tokens": tokens, "NoToken": noToken, "ContextEnds": contextEnds, "FirstHolders": firstHolders, "Race": race, "LateHolders": lateHolders,
	}
	if !s.Transactional {
		maps.Copy(cases, map[string]func(*fixture){
			"MissingFence": missingFence, "SomethingElse": somethingElse, "LockElsewhere": lockElsewhere, "LockOnTheSameServer": lockOnTheSameServer,
		})
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			test((&fixture{T: t, Subject: s, name: rand.Text()}).at(s.Addr))
		})
	}
}

// at returns the fixture as a client of addr sees it.
func (f *fixture) at(addr string) *fixture {
	there := *f
	var err error
	there.Store, err = open(f.Context(), strings.Replace(f.Place.Store, f.Addr, addr, 1))
	require.NoError(f, err)
	f.Cleanup(there.Store.Close)
	return &there
}

func (f *fixture) register(token lockport.Token) (Write, error) {
	return f.Register(f.Context(), f.name, token, nil)
}

func (f *fixture) registers(token lockport.Token) Write {
	f.Helper()
	write, err := f.register(token)
	require.NoError(f, err)
	return write
}

func (f *fixture) writes(write Write, value int64) {
	f.Helper()
	require.NoError(f, write(f.Context(), value))
	f.has(value)
}

func (f *fixture) has(value int64) {
	f.Helper()
	got, err := f.Get(f.Context(), f.name)
	require.NoError(f, err)
	require.Equal(f, value, got)
}

// The latest holder can write. An older holder can neither write nor register again.
func olderHolder(f *fixture) {
	old := f.registers(7)
	f.writes(old, 1)
	latest := f.registers(10) // less than 7, if they were compared as text
	f.Stale(f, old(f.Context(), 2), 7, 10)
	f.has(1)
	f.writes(latest, 3)
	f.Stale(f, peer.ErrOf(f.register(7)), 7, 10)
	f.writes(latest, 4) // a refused registration changes nothing
}

// Tokens are compared as integers, up to the greatest. Equal tokens pass.
func tokens(f *fixture) {
	for _, token := range []lockport.Token{1, 9, 10, 99, 100, 1 << 53, 1<<53 + 1, 1<<53 + 2, 1 << 62, 1<<63 - 1, math.MaxUint64 - 1, math.MaxUint64} {
		if f.Max > 0 && token > f.Max {
			break
		}
		first, second := f.registers(token), f.registers(token)
		for i, write := range []Write{first, second, first} {
			f.writes(write, int64(i))
		}
		require.Equal(f, fmt.Sprintf(f.Layout, token), f.Text(f.name))
		if token > 1 {
			f.Stale(f, peer.ErrOf(f.register(token-1)), token-1, token)
		}
	}
}

// Holders that register at once with a fence that is not there yet leave one token, the greatest.
func firstHolders(f *fixture) {
	for range 20 {
		f.name = rand.Text()
		var all sync.WaitGroup
		for token := range lockport.Token(4) {
			all.Go(func() { _, _ = f.register(token + 1) })
		}
		all.Wait()
		require.Equal(f, fmt.Sprintf(f.Layout, 4), f.Text(f.name))
	}
}

// If a fence is deleted, nobody can write, and a write does not recreate it. A registration does, but guards from before stay refused.
func missingFence(f *fixture) {
	gone := f.registers(5)
	f.Remove(f.name)
	for range 2 {
		f.OneLine(f, gone(f.Context(), 1), "register again", fence.ErrStale)
		f.has(0)
	}
	for _, token := range []lockport.Token{1, 2, 4} {
		older := f.registers(token)
		f.OneLine(f, gone(f.Context(), 1), "is older", fence.ErrStale)
		f.writes(older, 2)
	}
	f.registers(6)
	f.Stale(f, gone(f.Context(), 1), 5, 6)
}

// If the fence contains something else, registering and writing fail, and the content stays.
func somethingElse(f *fixture) {
	for _, odd := range f.Odd {
		holder := f.registers(5)
		f.Put(f.name, odd)
		for _, token := range []lockport.Token{4, 5, 6} {
			_, err := f.register(token)
			f.OneLine(f, err, "a place of its own")
			require.NotErrorIs(f, err, fence.ErrStale, odd)
		}
		if f.Beside {
			require.Contains(f, strings.Fields(f.Text(f.name)), odd)
		} else {
			f.OneLine(f, holder(f.Context(), 1), "a place of its own")
			f.has(0)
			require.Equal(f, odd, f.Text(f.name))
		}
		f.Remove(f.name)
	}
	f.writes(f.registers(5), 1)
}

func noToken(f *fixture) {
	f.OneLine(f, peer.ErrOf(f.register(0)), "", fence.ErrNoToken)
}

func lockElsewhere(f *fixture) {
	m, err := lockport.Open(f.Context(), "memory:", lockport.Logger(nil))
	require.NoError(f, err)
	defer func() { _ = m.Close() }()
	l, err := m.Acquire(f.Context(), "x")
	require.NoError(f, err)
	require.ErrorContains(f, peer.ErrOf(f.Register(f.Context(), f.name, 5, l)), "backend ")
}

// If the lock is on the same server, the fence also checks the lock's entry, immediately. That entry alone is not enough.
func lockOnTheSameServer(f *fixture) {
	c, err := f.locks(f.Context(), longTTL/6)
	require.NoError(f, err)
	defer func() { _ = c.Close() }()
	l, l2 := handOff(f, c, "account "+rand.Text())
	token, _ := l.Token()
	token2, _ := l2.Token()
	register := func(l *lockport.Lock) Write {
		write, err := f.Register(f.Context(), f.name, 0, l)
		require.NoError(f, err)
		return write
	}
	first := register(l)
	f.writes(first, 1)

	// After a hand-off inside the process the lock's entry stays, but the earlier hold is refused.
	second := register(l2)
	f.Stale(f, first(f.Context(), 2), token, token2)
	f.writes(second, 3)
	register(l2) // again

	// A released hold is refused even before anybody else has registered.
	require.NoError(f, l2.Release(f.Context()))
	f.OneLine(f, second(f.Context(), 4), "", lockport.ErrLost, fence.ErrStale)
	for _, name := range []string{f.name, rand.Text()} { // of this fence, and of one without a token
		f.OneLine(f, peer.ErrOf(f.Register(f.Context(), name, 0, l2)), "", lockport.ErrLost, fence.ErrStale)
	}
	f.has(3)
	f.registers(token2 + 1)
	f.Stale(f, peer.ErrOf(f.Register(f.Context(), f.name, 0, l2)), token2, token2+1)
	f.Stale(f, second(f.Context(), 4), token2, token2+1)
}

// Every call returns the context's error at once if the context has ended, and soon after its end while the network is silent.
func contextEnds(f *fixture) {
	proxy := peer.Proxy(f, f.Addr)
	far := f.at(proxy.Addr())
	write := far.registers(5)
	far.writes(write, 1) // now the connection exists
	for what, call := range map[string]func(context.Context) error{
		"register": func(ctx context.Context) error { return peer.ErrOf(far.Register(ctx, f.name, 5, nil)) },
		"write":    func(ctx context.Context) error { return write(ctx, 2) },
	} {
		ended, cancel := context.WithCancel(f.Context())
		cancel()
		require.ErrorIs(f, call(ended), context.Canceled)

		proxy.Freeze()
		ctx, cancel := context.WithTimeout(f.Context(), 50*time.Millisecond)
		done := make(chan error, 1)
		go func() { done <- call(ctx) }()
		select {
		case err := <-done:
			require.ErrorIs(f, err, context.DeadlineExceeded)
			if !f.Transactional {
				f.OneLine(f, err, "")
				require.True(f, errors.Is(err, driver.ErrUnknown) || errors.Is(err, driver.ErrUnavailable), "%s: %v", what, err)
			}
		case <-time.After(2 * time.Second): // with room for a busy machine
			f.Fatal("the call did not return: ", what)
		}
		cancel()
		proxy.Restore()
	}
}

// Errors checks the errors of the package of this name.
type Errors string

// OneLine requires a one-line error that names the package, contains text, and matches all of targets.
func (e Errors) OneLine(t testing.TB, err error, text string, targets ...error) {
	t.Helper()
	require.ErrorContains(t, err, string(e)+": ")
	require.ErrorContains(t, err, text)
	require.NotContains(t, err.Error(), "\n", "want one line")
	for _, target := range targets {
		require.ErrorIs(t, err, target)
	}
}

// Stale requires a one-line error that refuses token because of seen.
func (e Errors) Stale(t testing.TB, err error, token, seen lockport.Token) {
	t.Helper()
	e.OneLine(t, err, "", fence.ErrStale)
	var s *fence.StaleError
	require.ErrorAs(t, err, &s)
	require.Equal(t, []lockport.Token{token, seen}, []lockport.Token{s.Token, s.Seen}, "want a refusal of the first because of the second: %v", err)
}

// handOff makes two holds of name that share one claim. before was handed to after inside the process, unseen by the server. after is held.
func handOff(t testing.TB, c *lockport.Client, name string) (before, after *lockport.Lock) {
	t.Helper()
	for range 100 { // until the second caller waits when the first hold is released
		before, err := c.Acquire(t.Context(), name)
		require.NoError(t, err)
		begun, next := make(chan struct{}), make(chan error, 1)
		go func() {
			close(begun)
			var err error
			after, err = c.Acquire(context.Background(), name)
			next <- err
		}()
		<-begun
		require.NoError(t, before.Release(t.Context()))
		require.NoError(t, <-next)
		if before.Owner() == after.Owner() {
			return before, after
		}
		require.NoError(t, after.Release(t.Context()))
	}
	require.Fail(t, "no hold was handed over inside the process")
	return nil, nil
}

// Holders arrive while others write: no older one writes once a newer one has registered. Each adds to what it read, so a late write loses an update.
func race(f *fixture) {
	const holders, each, first = 16, 50, 95 // 99 and 100 are among the tokens
	var wrote atomic.Int64
	var all sync.WaitGroup
	for i := range holders {
		holder := f.at(f.Addr)
		for wrote.Load() < int64(i/4*4) && !f.Failed() { // four arrive together, while earlier holders write
			time.Sleep(100 * time.Microsecond)
		}
		all.Go(func() {
			write, err := holder.register(lockport.Token(first + i))
			var value int64
			if err == nil {
				value, err = holder.Get(f.Context(), f.name)
			}
			for n := 0; n < each && err == nil; n++ {
				value++
				if err = write(f.Context(), value); err == nil {
					wrote.Add(1)
				}
			}
			latest := i == holders-1
			if err != nil && (latest || !errors.Is(err, fence.ErrStale)) {
				f.Errorf("token %d: %v", first+i, err)
			}
		})
	}
	all.Wait()
	f.has(wrote.Load())
}
