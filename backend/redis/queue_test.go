package redis

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

func TestQueueIsFirstInFirstOut(t *testing.T) {
	t.Parallel()
	s := servers.SharedRedis(t)
	a, b, c := newNode(t, s.URL(), "a", Options{}), newNode(t, s.URL(), "b", Options{}), newNode(t, s.URL(), "c", Options{})
	name := t.Name()
	lease := a.takes(a.request(name))
	first, second := b.request(name), c.request(name)
	b.waits(first)
	c.waits(second)
	b.waits(first) // looks again, and keeps its place
	frees(t, lease)

	require.LessOrEqual(t, c.waits(second).ExpiresIn, 250*time.Millisecond, "it is the turn of somebody else")
	again := a.request(name)
	a.waits(again)
	try := a.request(name)
	try.Queue = false
	a.waits(try) // a single attempt does not overtake either

	lease = b.takes(first)
	require.True(t, lease.Grant().Contended)
	frees(t, lease)
	a.waits(again)
	lease = c.takes(second)
	frees(t, lease)
	lease = a.takes(again)
	require.False(t, lease.Grant().Contended)
	frees(t, lease)
	require.Empty(t, keysOf(t, s, name))
}

func TestHeadThatDoesNotComeIsSkipped(t *testing.T) {
	t.Parallel()
	s := servers.SharedRedis(t)
	a, b, c := newNode(t, s.URL(), "a", Options{}), newNode(t, s.URL(), "b", Options{}), newNode(t, s.URL(), "c", Options{})
	name := t.Name()
	for _, end := range []func(driver.Lease){
		func(l driver.Lease) { frees(t, l) },
		func(driver.Lease) { do(t, s, "DEL", defaultLayout.Key(name)) }, // as an expiry, which tells nobody
	} {
		lease := a.takes(a.request(name))
		dead, alive := b.request(name), c.request(name)
		b.waits(dead)
		c.waits(alive)
		end(lease)
		start := time.Now()
		h := c.waits(alive)
		require.Positive(t, h.ExpiresIn)
		require.LessOrEqual(t, h.ExpiresIn, 250*time.Millisecond)
		time.Sleep(h.ExpiresIn + time.Millisecond) // its turn passes
		lease = c.takes(alive)
		require.Less(t, time.Since(start), soon)
		frees(t, lease)
		b.abandons(dead)
	}
	require.Empty(t, keysOf(t, s, name))
}

func TestManyDeadWaitersVanish(t *testing.T) {
	t.Parallel()
	s := servers.SharedRedis(t)
	a, b := newNode(t, s.URL(), "a", Options{}), newNode(t, s.URL(), "b", Options{})
	name := t.Name()
	lease := a.takes(a.request(name))
	b.waits(b.request(name))
	b.waits(b.request(name))
	frees(t, lease)
	alive := a.request(name)
	var h *driver.HeldError
	for range 2 {
		h = a.waits(alive)
		time.Sleep(h.ExpiresIn + time.Millisecond)
	}
	frees(t, a.takes(alive))
	require.Empty(t, keysOf(t, s, name))
}

func TestHeadStaysHeadWhenAForeignClientWasQuicker(t *testing.T) {
	t.Parallel()
	s := servers.SharedRedis(t)
	a, b, c := newNode(t, s.URL(), "a", Options{}), newNode(t, s.URL(), "b", Options{}), newNode(t, s.URL(), "c", Options{})
	name := t.Name()
	lease := a.takes(a.request(name))
	first, second := b.request(name), c.request(name)
	b.waits(first)
	c.waits(second)
	frees(t, lease)
	require.Equal(t, "OK", do(t, s, "SET", defaultLayout.Key(name), "foreign", "NX", "PX", 10_000))
	b.waits(first)
	time.Sleep(300 * time.Millisecond) // its turn would have passed
	do(t, s, "DEL", defaultLayout.Key(name))
	c.waits(second)
	frees(t, b.takes(first))
	frees(t, c.takes(second))
}

func TestAbandonedHeadPassesItsTurnOn(t *testing.T) {
	t.Parallel()
	s := servers.SharedRedis(t)
	a, b, c := newNode(t, s.URL(), "a", Options{}), newNode(t, s.URL(), "b", Options{}), newNode(t, s.URL(), "c", Options{})
	name := t.Name()
	lease := a.takes(a.request(name))
	first, second := b.request(name), c.request(name)
	b.waits(first)
	c.waits(second)
	woken := c.notified(second)
	frees(t, lease)
	b.abandons(first)
	eventually(t, woken)
	frees(t, c.takes(second))
	require.Empty(t, keysOf(t, s, name))
}

func TestRequeueGoesBehindWhoWaits(t *testing.T) {
	t.Parallel()
	s := servers.SharedRedis(t)
	a, b := newNode(t, s.URL(), "a", Options{}), newNode(t, s.URL(), "b", Options{})
	name := t.Name()
	lease := a.takes(a.request(name))
	waiter := b.request(name)
	b.waits(waiter)
	woken := b.notified(waiter)
	again := a.request(name)
	got, released, err := a.Requeue(t.Context(), lease, again)
	require.NoError(t, released)
	require.True(t, isHeld(err), "%v", err)
	require.Nil(t, got)
	eventually(t, woken)
	a.waits(again)
	lease = b.takes(waiter)
	require.True(t, lease.Grant().Contended)
	frees(t, lease)
	lease = a.takes(again)

	// Nobody waits: granted at once, with a greater token.
	last := a.request(name)
	got, released, err = a.Requeue(t.Context(), lease, last)
	require.NoError(t, released)
	require.NoError(t, err)
	require.Greater(t, got.Grant().Token, lease.Grant().Token)
	frees(t, got)
	require.Empty(t, keysOf(t, s, name))
}

// abandons gives req up.
func (n *node) abandons(req driver.Request) {
	n.t.Helper()
	require.NoError(n.t, n.Abandon(n.t.Context(), req))
}

// notified registers for hints.
func (n *node) notified(req driver.Request) <-chan struct{} {
	woken := make(chan struct{}, 100)
	listened := n.claims.Heard(req.Owner)
	n.t.Cleanup(n.Notify(req, func() { woken <- struct{}{} }))
	if !listened {
		eventually(n.t, woken) // it listens now
	}
	return woken
}

func eventually(t testing.TB, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(soon):
		require.Fail(t, "nothing happened")
	}
}
