package redis

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
)

func TestQueueIsFirstInFirstOut(t *testing.T) {
	t.Parallel()
	s, a, b, c := shared(t)
	name := t.Name()
	lease := a.Takes(a.Request(name))
	first, second := b.Request(name), c.Request(name)
	b.Waits(first)
	c.Waits(second)
	b.Waits(first) // looks again, and keeps its place
	a.Frees(lease)

	require.LessOrEqual(t, c.Waits(second).ExpiresIn, 250*time.Millisecond, "it is the turn of somebody else")
	again := a.Request(name)
	a.Waits(again)
	try := a.Request(name)
	try.Queue = false
	a.Waits(try) // a single attempt does not overtake either

	lease = b.Takes(first)
	require.True(t, lease.Grant().Contended)
	a.Frees(lease)
	a.Waits(again)
	lease = c.Takes(second)
	a.Frees(lease)
	lease = a.Takes(again)
	require.False(t, lease.Grant().Contended)
	a.Frees(lease)
	leaves(t, s, name)
}

func TestHeadThatDoesNotComeIsSkipped(t *testing.T) {
	t.Parallel()
	s, a, b, c := shared(t)
	name := t.Name()
	for _, end := range []func(driver.Lease){
		func(l driver.Lease) { a.Frees(l) },
		func(driver.Lease) { do(t, s, "DEL", key(name)) }, // as an expiry, which tells nobody
	} {
		lease := a.Takes(a.Request(name))
		dead, alive := b.Request(name), c.Request(name)
		b.Waits(dead)
		c.Waits(alive)
		end(lease)
		start := time.Now()
		h := c.Waits(alive)
		require.Positive(t, h.ExpiresIn)
		require.LessOrEqual(t, h.ExpiresIn, 250*time.Millisecond)
		time.Sleep(h.ExpiresIn + time.Millisecond) // its turn passes
		lease = c.Takes(alive)
		require.Less(t, time.Since(start), soon)
		a.Frees(lease)
		b.Abandons(dead)
	}
	leaves(t, s, name)
}

func TestManyDeadWaitersVanish(t *testing.T) {
	t.Parallel()
	s, a, b, _ := shared(t)
	name := t.Name()
	lease := a.Takes(a.Request(name))
	b.Waits(b.Request(name))
	b.Waits(b.Request(name))
	a.Frees(lease)
	alive := a.Request(name)
	var h *driver.HeldError
	for range 2 {
		h = a.Waits(alive)
		time.Sleep(h.ExpiresIn + time.Millisecond)
	}
	a.Frees(a.Takes(alive))
	leaves(t, s, name)
}

func TestHeadStaysHeadWhenAForeignClientWasQuicker(t *testing.T) {
	t.Parallel()
	s, a, b, c := shared(t)
	name := t.Name()
	lease := a.Takes(a.Request(name))
	first, second := b.Request(name), c.Request(name)
	b.Waits(first)
	c.Waits(second)
	a.Frees(lease)
	require.Equal(t, "OK", do(t, s, "SET", key(name), "foreign", "NX", "PX", 10_000))
	b.Waits(first)
	time.Sleep(300 * time.Millisecond) // its turn would have passed
	do(t, s, "DEL", key(name))
	c.Waits(second)
	b.Frees(b.Takes(first))
	c.Frees(c.Takes(second))
}

func TestAbandonedHeadPassesItsTurnOn(t *testing.T) {
	t.Parallel()
	s, a, b, c := shared(t)
	name := t.Name()
	lease := a.Takes(a.Request(name))
	first, second := b.Request(name), c.Request(name)
	b.Waits(first)
	c.Waits(second)
	woken := c.Notified(second)
	a.Frees(lease)
	b.Abandons(first)
	peer.Eventually(t, woken)
	c.Frees(c.Takes(second))
	leaves(t, s, name)
}

func TestRequeueGoesBehindWhoWaits(t *testing.T) {
	t.Parallel()
	s, a, b, _ := shared(t)
	name := t.Name()
	lease := a.Takes(a.Request(name))
	waiter := b.Request(name)
	b.Waits(waiter)
	woken := b.Notified(waiter)
	again := a.Request(name)
	got, released, err := a.Requeue(t.Context(), lease, again)
	require.NoError(t, released)
	require.ErrorIs(t, err, driver.ErrHeld)
	require.Nil(t, got)
	peer.Eventually(t, woken)
	a.Waits(again)
	lease = b.Takes(waiter)
	require.True(t, lease.Grant().Contended)
	a.Frees(lease)
	lease = a.Takes(again)

	// Nobody waits: granted at once, with a greater token.
	last := a.Request(name)
	got, released, err = a.Requeue(t.Context(), lease, last)
	require.NoError(t, released)
	require.NoError(t, err)
	require.Greater(t, got.Grant().Token, lease.Grant().Token)
	a.Frees(got)
	leaves(t, s, name)
}
