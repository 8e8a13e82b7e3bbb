package redis

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
)

func TestHeadThatDoesNotComeIsSkipped(t *testing.T) {
	s, a, b, c := shared(t)
	name := t.Name()
	for _, end := range []func(driver.Lease){
		func(l driver.Lease) { a.Frees(l) },
		func(driver.Lease) { do(t, s, "DEL", key(name)) }, // like an expiry, which notifies nobody
	} {
		lease := a.Takes(a.Request(name))
		dead, alive := b.Request(name), c.Request(name)
		b.Waits(dead)
		b.Waits(b.Request(name)) // a waiter that never claims again
		c.Waits(alive)
		start := time.Now()
		end(lease)
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

// The waiter behind a dead one is told to ask after its turn.
func TestDeadHeadIsPassedOverAfterARelease(t *testing.T) {
	_, a, b, c := shared(t)
	name := t.Name()
	lease := a.Takes(a.Request(name))
	dead, alive := b.Request(name), c.Request(name)
	b.Waits(dead)
	c.Waits(alive)
	woken := c.Notified(alive)
	require.Eventually(t, func() bool { return c.claims.Heard(alive.Owner) }, soon, time.Millisecond)
	for len(woken) > 0 {
		<-woken
	}
	a.Frees(lease)
	peer.Eventually(t, woken)
	c.Frees(c.Takes(alive))
	b.Abandons(dead)
}

func TestHeadStaysHeadWhenAForeignClientWasQuicker(t *testing.T) {
	s, a, b, c := shared(t)
	name := t.Name()
	lease := a.Takes(a.Request(name))
	first, second := b.Request(name), c.Request(name)
	b.Waits(first)
	c.Waits(second)
	a.Frees(lease)
	require.Equal(t, "OK", do(t, s, "SET", key(name), "foreign", "NX", "PX", 10_000))
	b.Waits(first)
	time.Sleep(300 * time.Millisecond) // longer than a turn
	do(t, s, "DEL", key(name))
	c.Waits(second)
	b.Frees(b.Takes(first))
	c.Frees(c.Takes(second))
}

func TestBrokenHolderIsToldAtOnce(t *testing.T) {
	_, a, b, _ := shared(t)
	req := a.Request(t.Name())
	lost := make(chan error, 10)
	req.Lost = func(err error) { lost <- err }
	a.Takes(req)
	require.Eventually(t, func() bool { return a.claims.Heard(req.Owner) }, soon, time.Millisecond)
	require.NoError(t, b.Break(t.Context(), t.Name(), req.Owner))
	require.ErrorContains(t, peer.Eventually(t, lost), "force")
}

func TestListeningSurvivesTheLossOfItsConnection(t *testing.T) {
	t.Parallel()
	s := servers.NeedRedis(t, servers.RedisOptions{})
	a, b := newNode(t, s.URL(), "a", Options{}), newNode(t, s.URL(), "b", Options{})
	for range 3 {
		lease := a.Takes(a.Request(t.Name()))
		req := b.Request(t.Name())
		b.Waits(req)
		woken := b.Notified(req)
		require.Positive(t, do(t, s, "CLIENT", "KILL", "TYPE", "pubsub"))
		peer.Eventually(t, woken) // it resubscribed: a hint may have been missed
		woken = b.Notified(req)
		a.Frees(lease)
		peer.Eventually(t, woken)
		b.Frees(b.Takes(req))
	}
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
	select {
	case <-woken:
	case <-time.After(12 * time.Second):
		require.Fail(t, "nobody noticed")
	}
	require.False(t, n.claims.Heard(req.Owner))
	proxy.DropHeld()
	require.Eventually(t, func() bool { return n.claims.Heard(req.Owner) }, 6*time.Second+soon, time.Millisecond)
	woken = n.Notified(req)
	n.Frees(lease)
	peer.Eventually(t, woken)
	n.Frees(n.Takes(req))
}
