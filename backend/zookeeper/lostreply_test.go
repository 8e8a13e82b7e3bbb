package zookeeper

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
)

// A claim that lost its reply and then its session is certainly gone only once a server says that the session is.
func TestAbandonAfterOutage(t *testing.T) {
	t.Parallel()
	s := servers.SharedZooKeeper(t)
	proxy := peer.Proxy(t, s.Addr())
	b := newBackend(t, Options{}, proxy.Addr())
	other := newBackend(t, Options{}, s.Addr())
	name := t.Name()
	b.Frees(b.Takes(request(b, name)))
	req := request(b, name)
	b.Takes(req)
	proxy.Cut()
	require.Eventually(t, func() bool { return sessionOf(b) == 0 }, soon, 10*time.Millisecond)
	require.ErrorIs(t, b.Abandon(within(t, 100*time.Millisecond), req), driver.ErrUnknown)
	proxy.Restore()
	require.Eventually(t, func() bool { return b.Abandon(within(t, soon), req) == nil }, soon, 10*time.Millisecond)
	other.Frees(other.Takes(request(other, name)))
	b.Frees(b.Takes(request(b, name)))
}

// A stopped server may have a creation in its buffers, and execute it on resuming, in a session that was given up meanwhile. Abandon is
// certain only when that session has ended.
func TestAbandonInASessionGivenUp(t *testing.T) {
	t.Parallel()
	s := servers.NeedZooKeeper(t, servers.ZooKeeperOptions{})
	const ttl = time.Second
	b := newBackend(t, Options{TTL: ttl}, s.Addr())
	raw := newRaw(t, s.Addr())
	name := t.Name()
	_, err := raw.Create("/"+name, nil, zk.FlagPersistent, b.o.ACL) // the server never removes it
	require.NoError(t, err)
	b.Frees(b.Takes(request(b, name)))
	given := sessionOf(b)
	require.NoError(t, s.Freeze())
	req := request(b, name)
	_, err = b.TryAcquire(within(t, 100*time.Millisecond), req)
	require.ErrorIs(t, err, driver.ErrUnknown)
	require.Eventually(t, func() bool { return sessionOf(b) != given }, soon, time.Millisecond, "the session was not given up")
	require.NoError(t, s.Thaw())
	require.Eventually(t, func() bool { return b.ready(within(t, soon)) == nil }, soon, time.Millisecond)
	served := time.Now()
	require.Eventually(t, func() bool { return b.Abandon(within(t, soon), req) == nil }, soon, 10*time.Millisecond)
	require.Greater(t, time.Since(served), ttl)
	for range 10 {
		children, _, err := raw.Children("/" + name)
		require.NoError(t, err)
		require.Empty(t, children)
		time.Sleep(ttl / 10)
	}
}
