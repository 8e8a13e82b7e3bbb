package redis

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

func TestReleaseWakesTheHead(t *testing.T) {
	t.Parallel()
	s := servers.SharedRedis(t)
	a, b, c := newNode(t, s.URL(), "a", Options{}), newNode(t, s.URL(), "b", Options{}), newNode(t, s.URL(), "c", Options{})
	lease := a.takes(a.request(t.Name()))
	first, second := b.request(t.Name()), c.request(t.Name())
	b.waits(first)
	c.waits(second)
	wakeB, wakeC := b.notified(first), c.notified(second)
	require.Equal(t, pollHeard, b.waits(first).Poll)
	frees(t, lease)
	eventually(t, wakeB)
	require.Empty(t, wakeC, "one is woken, not all")
	frees(t, b.takes(first))
	eventually(t, wakeC)
	frees(t, c.takes(second))
}

// A hint that comes between a claim and Notify is not lost.
func TestEarlyHintCounts(t *testing.T) {
	t.Parallel()
	s := servers.SharedRedis(t)
	a, b := newNode(t, s.URL(), "a", Options{}), newNode(t, s.URL(), "b", Options{})
	b.waitsSomewhere(a) // b listens from now on
	lease := a.takes(a.request(t.Name()))
	req := b.request(t.Name())
	b.waits(req)
	frees(t, lease)
	require.Eventually(t, func() bool {
		return b.claims.Hinted(req.Owner)
	}, soon, time.Millisecond)
	woken := make(chan struct{}, 1)
	defer b.Notify(req, func() { woken <- struct{}{} })()
	require.Len(t, woken, 1, "at once")
	frees(t, b.takes(req))
}

// waitsSomewhere makes n listen.
func (n *node) waitsSomewhere(holder *node) {
	name := fmt.Sprint(n.t.Name(), "-elsewhere")
	lease := holder.takes(holder.request(name))
	req := n.request(name)
	n.waits(req)
	n.notified(req)
	n.abandons(req)
	frees(n.t, lease)
}

func TestHolderIsToldThatSomebodyWaits(t *testing.T) {
	t.Parallel()
	s := servers.SharedRedis(t)
	for _, early := range []bool{false, true} { // the waiter comes before the holder listens, or after
		a, b := newNode(t, s.URL(), "a", Options{}), newNode(t, s.URL(), "b", Options{})
		name := fmt.Sprint(t.Name(), early)
		req := a.request(name)
		contended := make(chan struct{}, 100)
		req.Contended = func() { contended <- struct{}{} }
		lease := a.takes(req)
		if !early {
			require.Eventually(t, func() bool { return a.claims.Heard(req.Owner) }, soon, time.Millisecond,
				"who holds for longer than a moment listens")
			require.Empty(t, contended)
		}
		waiter := b.request(name)
		b.waits(waiter)
		eventually(t, contended)
		frees(t, lease)
		frees(t, b.takes(waiter))
	}
}

// Who takes locks for a moment at a time and never waits has one connection.
func TestUncontendedUserDoesNotListen(t *testing.T) {
	t.Parallel()
	s := servers.SharedRedis(t)
	n, proxy := proxied(t, s, Options{})
	for range 20 {
		frees(t, n.takes(n.request(t.Name())))
	}
	require.Equal(t, 1, proxy.Conns())
}

func TestBrokenHolderIsToldAtOnce(t *testing.T) {
	t.Parallel()
	s := servers.SharedRedis(t)
	a, b := newNode(t, s.URL(), "a", Options{}), newNode(t, s.URL(), "b", Options{})
	req := a.request(t.Name())
	lost := make(chan error, 10)
	req.Lost = func(err error) { lost <- err }
	lease := a.takes(req)
	require.Eventually(t, func() bool { return a.claims.Heard(req.Owner) }, soon, time.Millisecond)
	require.NoError(t, b.Break(t.Context(), t.Name(), req.Owner))
	select {
	case err := <-lost:
		require.ErrorIs(t, err, driver.ErrLost)
		require.ErrorContains(t, err, "force")
	case <-time.After(soon):
		require.Fail(t, "not told")
	}
	require.ErrorIs(t, lease.Release(t.Context()), driver.ErrLost)
	require.ErrorIs(t, b.Break(t.Context(), t.Name(), req.Owner), driver.ErrLost)
	require.Empty(t, lost, "once")
}

func TestListeningSurvivesTheLossOfItsConnection(t *testing.T) {
	t.Parallel()
	s := servers.NeedRedis(t, servers.RedisOptions{})
	a, b := newNode(t, s.URL(), "a", Options{}), newNode(t, s.URL(), "b", Options{})
	for range 3 {
		lease := a.takes(a.request(t.Name()))
		req := b.request(t.Name())
		b.waits(req)
		woken := b.notified(req)
		require.Positive(t, do(t, s, "CLIENT", "KILL", "TYPE", "pubsub"))
		eventually(t, woken) // it listens anew: a hint may have been missed
		require.Eventually(t, func() bool { return b.claims.Heard(req.Owner) }, soon, time.Millisecond)
		for len(woken) > 0 {
			<-woken
		}
		frees(t, lease)
		eventually(t, woken)
		frees(t, b.takes(req))
	}
}

// A connection that has died silently is noticed by a ping, and replaced.
func TestListeningSurvivesASilentConnection(t *testing.T) {
	t.Parallel()
	s := servers.SharedRedis(t)
	n, proxy := proxied(t, s, Options{})
	a := newNode(t, s.URL(), "a", Options{})
	lease := a.takes(a.request(t.Name()))
	req := n.request(t.Name())
	n.waits(req)
	woken := n.notified(req)
	proxy.Freeze()
	select {
	case <-woken:
	case <-time.After(12 * time.Second):
		require.Fail(t, "nobody noticed")
	}
	require.False(t, n.claims.Heard(req.Owner))
	proxy.DropHeld()
	require.Eventually(t, func() bool { return n.claims.Heard(req.Owner) }, 6*time.Second+soon, time.Millisecond)
	require.Eventually(t, func() bool { return len(woken) > 0 }, soon, time.Millisecond)
	for len(woken) > 0 {
		<-woken
	}
	frees(t, lease)
	eventually(t, woken)
	frees(t, n.takes(req))
}

func TestCloseDoesNotWaitForASilentServer(t *testing.T) {
	t.Parallel()
	s := servers.SharedRedis(t)
	n, proxy := proxied(t, s, Options{})
	proxy.Freeze()
	req := n.request(t.Name())
	defer n.Notify(req, func() {})() // begins to connect
	start := time.Now()
	require.NoError(t, n.Backend.Close())
	require.Less(t, time.Since(start), 3*time.Second, "go-redis' read timeout is 5 s")
	proxy.Restore()
}

// A user who may neither publish nor subscribe has locks like everybody else; waiters look again every 250 ms.
func TestUserWithoutChannels(t *testing.T) {
	t.Parallel()
	s := servers.NeedRedis(t, servers.RedisOptions{Users: []string{"lock on >pw ~lockport:* ~lockport.side:* resetchannels +@all -config"}})
	u := s.UserURL("lock", "pw")
	a, b := newNode(t, u, "a", Options{}), newNode(t, u, "b", Options{})
	notices, err := a.Check(t.Context())
	require.NoError(t, err)
	require.Contains(t, ids(notices), "subscribe")
	require.Contains(t, ids(notices), "publish")
	lease := a.takes(a.request(t.Name()))
	req := b.request(t.Name())
	require.Equal(t, pollUnheard, b.waits(req).Poll)
	defer b.Notify(req, func() {})()
	require.Equal(t, pollUnheard, b.waits(req).Poll)
	frees(t, lease)
	frees(t, b.takes(req))
}

func ids(notices []driver.Notice) []string {
	var list []string
	for _, n := range notices {
		if n.Unknown {
			list = append(list, n.ID+"?")
		} else {
			list = append(list, n.ID)
		}
	}
	return list
}
