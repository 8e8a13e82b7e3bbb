package redis

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
)

func TestHeadThatDoesNotComeIsSkipped(t *testing.T) {
	s, a, b, c := shared(t)
	name := t.Name()
	for _, end := range []func(driver.Lease){
		func(l driver.Lease) { a.Frees(l) },
		func(driver.Lease) { do(t, s, "DEL", key(name)) },                                // like an expiry, which notifies nobody
		func(l driver.Lease) { a.Frees(l); do(t, s, "ZADD", queueOf(name), -1e15, "!") }, // as if the clock was set back
	} {
		lease := a.Takes(a.Request(name))
		dead, alive := b.Request(name), c.Request(name)
		b.Waits(dead)
		b.Waits(b.Request(name)) // a waiter that never claims again
		c.Waits(alive)
		start := time.Now()
		end(lease)
		require.Greater(t, do(t, s, "PTTL", queueOf(name)), int64(1000), "there are other waiters")
		h := c.Waits(alive)
		require.Positive(t, h.ExpiresIn)
		require.LessOrEqual(t, h.ExpiresIn, 250*time.Millisecond)
		lease = c.TakesSoon(alive) // after the others missed their turns
		require.Greater(t, time.Since(start), 450*time.Millisecond)
		a.Frees(lease)
		b.Abandons(dead)
	}
	leaves(t, s, name)
}

// The waiter behind a dead one is told to ask after its turn, also if the holder waits again but gives that up, or is broken.
func TestDeadHeadIsPassedOverAfterARelease(t *testing.T) {
	_, a, b, c := shared(t)
	name := t.Name()
	held, next := a.Request(name), a.Request(name)
	for _, end := range []func(driver.Lease){
		a.Frees,
		func(l driver.Lease) {
			_, released, _ := a.Requeue(t.Context(), l, next)
			require.NoError(t, released)
			a.Abandons(next)
		},
		func(driver.Lease) { require.NoError(t, b.Break(t.Context(), name, held.Owner)) },
	} {
		lease, dead, alive := a.Takes(held), b.Request(name), c.Request(name)
		b.Waits(dead)
		c.Waits(alive)
		woken := c.Notified(alive)
		end(lease)
		peer.Eventually(t, woken)
		c.Frees(c.Takes(alive))
		b.Abandons(dead)
		_, unknown, _ := b.claims.Find(dead)
		require.True(t, unknown, "an abandoned claim is forgotten")
	}
}

func TestHeadStaysHeadWhenAForeignClientWasQuicker(t *testing.T) {
	s, a, b, c := shared(t)
	name := t.Name()
	lease := a.Takes(a.Request(name))
	first, second := b.Request(name), c.Request(name)
	b.Waits(first)
	a.Frees(lease)
	require.Equal(t, "OK", do(t, s, "SET", key(name), "foreign", "NX", "PX", 10_000))
	b.Waits(first)
	time.Sleep(300 * time.Millisecond) // longer than a turn
	do(t, s, "DEL", key(name))
	c.Waits(second)
	woken := c.Notified(second)
	time.Sleep(300 * time.Millisecond) // late, but before anybody else
	b.Frees(b.Takes(first))
	peer.Eventually(t, woken)
	c.Frees(c.Takes(second))
}

// A ping detects a connection that died silently, and it is replaced.
func TestListeningSurvivesASilentConnection(t *testing.T) {
	s, a, _, _ := shared(t)
	n, proxy := proxied(t, s)
	lease := a.Takes(a.Request(t.Name()))
	req := n.Request(t.Name())
	n.Waits(req)
	woken := n.Notified(req)
	proxy.Freeze()
	require.Eventually(t, func() bool { return len(woken) > 0 }, 12*time.Second, time.Millisecond, "nobody noticed")
	require.False(t, n.claims.Heard(req.Owner))
	proxy.DropHeld()
	require.Eventually(t, func() bool { return n.claims.Heard(req.Owner) }, 6*time.Second+soon, time.Millisecond)
	woken = n.Notified(req)
	n.Frees(lease)
	peer.Eventually(t, woken)
	n.Frees(n.Takes(req))
}
