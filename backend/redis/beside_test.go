package redis

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
)

// until returns how long owner holds, from the set of holders.
func until(t testing.TB, s *servers.Redis, set, owner string) time.Duration {
	t.Helper()
	ms := peer.Must(strconv.ParseInt(do(t, s, "ZSCORE", set, owner).(string), 10, 64))(t)
	return time.Until(time.UnixMilli(ms))
}

// The backend's page lists these vectors. A change is a major version.
func TestWireGoldenOfReaders(t *testing.T) {
	s, a, b, _ := shared(t)
	name := t.Name()
	key, set := "lockport:"+name, "lockport.side:{lockport:"+name+"}:readers"
	a.Notified(a.Request("another")) // the client is subscribed
	first, second, told := a.reading(name), b.reading(name), make(chan struct{}, 100)
	first.Contended, second.TTL = func() { told <- struct{}{} }, 20*time.Second
	leases := []driver.Lease{a.Takes(first), b.Takes(second)}
	require.Equal(t, "lp1:00000000000000000000000000000000:readers", do(t, s, "GET", key))
	require.Equal(t, []any{first.Owner, second.Owner}, do(t, s, "ZRANGE", set, 0, -1))
	do(t, s, "ZADD", set, time.Now().Add(5*time.Second).UnixMilli(), first.Owner)
	do(t, s, "PEXPIRE", key, 5000)
	peer.Extends(t, a, leases[0])
	require.InDelta(t, 10, until(t, s, set, first.Owner).Seconds(), 3)
	require.InDelta(t, 20, until(t, s, set, second.Owner).Seconds(), 3)
	require.InDelta(t, 20_000, do(t, s, "PTTL", key), 3000, "the latest expiry")

	// To a writer they look like a lockport client.
	writer := a.Request(name)
	h := a.Waits(writer)
	require.Equal(t, 5*time.Second, h.Poll)
	require.True(t, h.Holder.Shared)
	peer.Eventually(t, told) // without a renewal
	a.Frees(leases[1])
	require.InDelta(t, 10_000, do(t, s, "PTTL", key), 3000, "the latest expiry of the remaining readers")
	a.Frees(leases[0])
	a.Abandons(writer)
	leaves(t, s, name)
}

func TestWireGoldenOfPermits(t *testing.T) {
	s, a, b, _ := shared(t)
	name := t.Name()
	side := "lockport.side:{lockport:" + name + "}:permits"
	do(t, s, "ZADD", side, 1, "a holder that has expired")
	first := a.permit(name)
	lease := a.Takes(first)
	require.Equal(t, []any{first.Owner, "#"}, do(t, s, "ZRANGE", side, 0, -1))
	require.InDelta(t, 10, until(t, s, side, first.Owner).Seconds(), 3)
	require.Equal(t, "4000000000000002", do(t, s, "ZSCORE", side, "#"))
	require.InDelta(t, 10_000, do(t, s, "PTTL", side), 3000)

	other := peer.Permit(b.Request(name), 3)
	peer.Fails(t, b, other, driver.ErrInvalidOption, driver.ErrRefused)

	last, waiter := b.Takes(b.permit(name)), a.permit(name)
	h := a.Waits(waiter)
	require.InDelta(t, 10, h.ExpiresIn.Seconds(), 3, "when the first permit expires")
	require.False(t, h.Holder.Foreign)
	require.Equal(t, []any{waiter.Owner, "1"}, do(t, s, "ZRANGE", side+"-queue", 0, -1, "WITHSCORES"))
	require.Equal(t, 1, peer.Shows(t, a, name).Waiters)
	a.Abandons(waiter)
	do(t, s, "ZADD", side, 1, first.Owner) // it expires
	require.ErrorIs(t, peer.ErrOf(a.Renews(lease)), driver.ErrLost)
	require.ErrorIs(t, a.Releases(lease), driver.ErrLost)
	a.Frees(last)
	require.Equal(t, int64(0), do(t, s, "EXISTS", side, side+"-queue", "lockport:"+name))
	b.Frees(b.Takes(other)) // no permit is held, so their number may change
}

// Readers left over from a removed lock do not hold again when new readers come.
func TestRemovedReadersStayRemoved(t *testing.T) {
	s, n, _, _ := shared(t)
	name := t.Name()
	old := n.Takes(n.reading(name))
	do(t, s, "DEL", key(name))
	require.ErrorIs(t, peer.ErrOf(n.Renews(old)), driver.ErrLost, "a writer may come")
	next := n.Takes(n.reading(name))
	require.ErrorIs(t, peer.ErrOf(n.Renews(old)), driver.ErrLost)
	require.ErrorIs(t, old.Release(t.Context()), driver.ErrLost)
	peer.Extends(t, n, next)
	n.Frees(next)
}

// A release does not prolong the turn of a waiter that does not answer.
func TestReleasesDoNotProlongATurn(t *testing.T) {
	_, a, b, c := shared(t)
	permit := func(n *node) driver.Request { return peer.Permit(n.Request(t.Name()), 5) }
	var held []driver.Lease
	for range 5 {
		held = append(held, a.Takes(permit(a)))
	}
	dead, alive := permit(b), permit(c)
	b.Waits(dead)
	c.Waits(alive)
	for _, lease := range held[:4] {
		a.Frees(lease)
		time.Sleep(150 * time.Millisecond)
		if lease, err := c.Try(alive); err == nil {
			c.Frees(lease)
			return
		}
	}
	require.Fail(t, "four permits of five are free, and the second waiter has none")
}

// A waiting writer keeps later readers out while it answers, and until it gives up.
func TestWriterThatIsGoneIsPassedOver(t *testing.T) {
	s, a, b, _ := shared(t)
	name := t.Name()
	here := a.Takes(a.reading(name))
	a.Notified(a.Request("another")) // the clients are subscribed
	b.Notified(b.Request("another"))
	writer, reader := b.Request(name), a.reading(name)
	b.Waits(writer)
	require.Equal(t, 3*time.Second, a.Waits(reader).Poll)
	woken := b.Notified(writer)
	for range 2 {
		require.Greater(t, a.Waits(reader).ExpiresIn, time.Second) // polls, and calls the head
		peer.Eventually(t, woken)
		b.Waits(writer) // the readers are in its way
	}
	hints := a.Notified(reader)
	a.Waits(reader)
	time.Sleep(400 * time.Millisecond)
	require.Empty(t, hints, "its own request does not make it ask again")
	a.Frees(a.TakesSoon(reader)) // the writer does not answer
	b.Abandons(writer)

	writer, reader = b.Request(name), a.reading(name)
	b.Waits(writer)
	a.Waits(reader)
	woken = a.Notified(reader)
	b.Abandons(writer)
	peer.Eventually(t, woken)
	a.Frees(a.Takes(reader))

	// Several that are gone are passed over one after another, without a long pause for each.
	for range 6 {
		b.Waits(b.Request(name))
	}
	reader = a.reading(name)
	a.Waits(reader)
	a.Waits(reader) // calls the first
	for range 5 {
		time.Sleep(300 * time.Millisecond)
		require.LessOrEqual(t, a.Waits(reader).ExpiresIn, 250*time.Millisecond)
	}
	time.Sleep(300 * time.Millisecond)
	a.Frees(a.Takes(reader))
	a.Frees(here)
	leaves(t, s, name)
}

// An expiry calls nobody: the next client that asks calls the head. A permit granted in its turn calls the next waiter while there is room.
func TestNextComesInToo(t *testing.T) {
	s, a, b, _ := shared(t)
	name := t.Name()
	a.Takes(a.permit(name))
	a.Takes(a.permit(name))
	first, second := a.permit(name), b.permit(name)
	a.Waits(first)
	b.Waits(second)
	called, woken := a.Notified(first), b.Notified(second)
	do(t, s, "DEL", "lockport.side:{lockport:"+name+"}:permits")
	b.Waits(peer.Once(b.permit(name)))
	peer.Eventually(t, called)
	b.Waits(second) // does not end its turn
	one := a.Takes(first)
	peer.Eventually(t, woken)
	b.Frees(b.Takes(second))
	a.Frees(one)
}

// A writer is told that a reader waits. Holders of permits are told at once that somebody waits, and again when they renew.
func TestHoldersOfPermitsAreTold(t *testing.T) {
	_, a, b, _ := shared(t)
	a.Notified(a.Request("another")) // the client is subscribed
	told, toldWriter := make(chan struct{}, 100), make(chan struct{}, 100)
	req, writer := a.permit(t.Name()), a.Request(t.Name())
	req.Contended = func() { told <- struct{}{} }
	writer.Contended = func() { toldWriter <- struct{}{} }
	lock := a.Takes(writer)
	b.Waits(b.reading(t.Name()))
	peer.Eventually(t, toldWriter)
	lease, other := a.Takes(req), a.Takes(a.permit(t.Name()))
	waiter, next := b.permit(t.Name()), a.permit(t.Name())
	b.Waits(waiter)
	peer.Eventually(t, told)
	peer.Extends(t, a, lease)
	peer.Eventually(t, told)

	// A waiter that was called too early is called again.
	a.Waits(next)
	woken := a.Notified(next)
	b.Abandons(waiter)
	peer.Eventually(t, woken)
	a.Waits(next)
	a.Frees(other)
	peer.Eventually(t, woken)
	a.Frees(a.Takes(next))
	a.Frees(lease)
	a.Frees(lock) // the end of the last permit leaves it alone
}

// A Break shares no script call with releases: it has an argument more.
func TestBreakBesideReleases(t *testing.T) {
	_, a, b, _ := shared(t)
	var all sync.WaitGroup
	var over atomic.Bool
	defer all.Wait()
	defer over.Store(true)
	for range 16 {
		all.Go(func() {
			for !over.Load() {
				req := a.reading("other " + t.Name())
				req.Lost = func(err error) { assert.NoError(t, err, "a word that its own release must not send") }
				lease, err := a.Try(req)
				if assert.NoError(t, err) {
					assert.NoError(t, a.Releases(lease))
				}
			}
		})
	}
	for range 50 {
		req := b.reading(t.Name())
		lease := b.Takes(req)
		require.NoError(t, a.Break(t.Context(), req.Name, req.Owner))
		require.ErrorIs(t, b.Releases(lease), driver.ErrLost)
	}
}

// Without a prefix, the pattern of a list can match side keys of other names.
func TestListWithoutPrefix(t *testing.T) {
	t.Parallel()
	n := nodeOn(t, newClient(t, servers.SharedRedis(t).URL()), "a", Options{NoPrefix: true})
	lease := n.Takes(n.permit(t.Name()))
	require.Len(t, peer.Lists(t, n, t.Name()), 1)
	for _, st := range peer.Lists(t, n, "lockport.side:") {
		require.NotEqual(t, t.Name(), st.Name, "it does not begin with the prefix")
	}
	n.Frees(lease)
}
