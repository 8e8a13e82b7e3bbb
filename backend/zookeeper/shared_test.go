package zookeeper

import (
	"net"
	"regexp"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
)

// All requests use the caller's connection: nothing else is dialed, its session owns the nodes, and they end with that session.
func TestCallersConnectionCarriesEveryRequest(t *testing.T) {
	t.Parallel()
	s := servers.NeedZooKeeper(t, servers.ZooKeeperOptions{})
	const ttl = 6 * time.Second
	conn, o := newConn(t, ttl, s.Addr())
	c := peer.Must(New(conn, o))(t)
	lock := peer.Holds(t, c, "mine")
	var node Node
	require.True(t, lock.As(&node))
	require.Equal(t, conn.SessionID(), node.Session)
	require.NoError(t, peer.ErrOf(c.Inspect(peer.Within(t, soon), "mine")))
	<-time.After(ttl * 5 / 12) // a renewal comes after a third
	require.NoError(t, lock.Err())
	answer := peer.Must(s.FourLetter(t.Context(), "cons"))(t)
	require.Len(t, regexp.MustCompile(`sid=0x[0-9a-f]+,`).FindAllString(answer, -1), 1, "the backend opened a session of its own:\n%s", answer)

	other := newBackend(t, Options{}, s.Addr())
	other.Waits(request(other, "mine"))
	closed := time.Now()
	conn.Close()
	peer.Eventually(t, lock.Lost())
	require.Less(t, time.Since(closed), ttl/3, "the holder was not told that its connection was closed, long before the deadline")
	other.Frees(other.Takes(request(other, "mine")))
	_ = c.Close()
}

// On a connection that its owner has closed, new claims send nothing. Earlier ones have ended when its session has.
func TestClosedConnection(t *testing.T) {
	s, _ := beside(t)
	conn, o := newConn(t, testTTL, s.Addr())
	b := newNodeOn(t, conn, o)
	c, name := peer.Client(t, b.Backend, lockport.TTL(testTTL)), fresh(t)
	peer.Holds(t, c, name)
	b.mu.Lock()
	b.down = time.Now().Add(-time.Hour) // and connected again since
	b.mu.Unlock()
	req, waited := request(b, name), make(chan error, 1)
	go func() { _, err := b.Wait(t.Context(), req); waited <- err }()
	waits(t, b, name, 2)
	closed := time.Now()
	conn.Close()
	peer.Until(t, func() bool { return conn.State() == zk.StateDisconnected })
	for range 50 {
		_, err := c.TryAcquire(peer.Within(t, soon), fresh(t))
		require.ErrorIs(t, err, lockport.ErrUnavailable)
		require.ErrorContains(t, err, "make a new client")
	}
	b.mu.Lock()
	require.LessOrEqual(t, len(b.claims), 2, "a claim that sent nothing is kept")
	b.mu.Unlock()
	require.ErrorIs(t, peer.Eventually(t, waited), errSessionEnded)
	require.Greater(t, time.Since(closed), testTTL, "a server that did not hear of the end keeps the session")
	b.Abandons(req)
	require.NoError(t, c.Close())
	require.Empty(t, b.claims)
	require.ErrorIs(t, b.newClaim(req).createOnce(peer.Within(t, soon)), driver.ErrUnknown)
	require.Zero(t, b.down, "the session counts from its last request")
}

// The session is older than the backend, which does not know when the leader last heard of it: the first grant waits for proof.
func TestConnectionThatHasASession(t *testing.T) {
	s, _ := beside(t)
	conn, o := newConn(t, testTTL, s.Addr())
	const tick = 300 * time.Millisecond
	o.TickTime = tick
	_, _, err := conn.Exists("/")
	require.NoError(t, err)
	b := newNodeOn(t, conn, o)
	before := time.Now()
	first := b.Takes(request(b, t.Name()))
	require.Greater(t, time.Since(before), tick)
	require.WithinRange(t, first.Grant().Until, before.Add(testTTL), time.Now().Add(testTTL-tick))
	b.Frees(first)

	// Closing the client keeps the caller's connection open, but leaves no nodes.
	var node Node
	c := peer.Client(t, b.Backend, lockport.TTL(testTTL))
	require.True(t, peer.Holds(t, c, t.Name()).As(&node))
	require.NoError(t, c.Close())
	require.ErrorIs(t, b.confirm(node.Path), zk.ErrNoNode, "the node of an unreleased lock is left")
}

// The granted session timeout counts, not the requested one. A backend that cannot know it refuses.
func TestGrantedTimeout(t *testing.T) {
	t.Parallel()
	s := servers.NeedZooKeeper(t, servers.ZooKeeperOptions{Config: []string{"tickTime=500", "maxSessionTimeout=1500"}})
	conn, o := newConn(t, testTTL, s.Addr())
	b := newNodeOn(t, conn, o)
	lease := b.Takes(request(b, t.Name()))
	require.LessOrEqual(t, time.Until(lease.Grant().Until), 1500*time.Millisecond)
	b.Frees(lease)
	for _, o := range []Options{
		{TTL: testTTL, Log: new(Log)}, // not the connection's
		{TTL: 4 * time.Second, Log: b.o.Log},
		{TTL: time.Second, Log: b.o.Log},
	} {
		o.TickTime = 100 * time.Millisecond
		other := newNodeOn(t, conn, o)
		peer.SaysOneLine(t, peer.Fails(t, other, request(other, t.Name())), driver.ErrRefused, "zk.Connect")
	}
	for _, o := range []Options{{}, {TTL: time.Second}, {TTL: time.Minute, Username: "u", Password: "p"}, {TTL: time.Minute, Dial: new(net.Dialer).DialContext}} {
		require.ErrorIs(t, peer.ErrOf(New(conn, o)), lockport.ErrInvalidOption)
	}
	require.ErrorIs(t, peer.ErrOf(New(nil, Options{TTL: time.Minute})), lockport.ErrInvalidOption)
	require.NoError(t, peer.ErrOf(NewBackend(conn, Options{Log: b.o.Log})), "with Log, the TTL has a default")
	for ttl, what := range map[string]string{
		"300ms": "session timeout 1s, which is longer than the TTL 300ms",
		"1m":    "session timeout 1.5s, which is less than half the TTL 1m0s",
	} {
		peer.Refuses(t, s.URL()+"?ttl="+ttl, lockport.ErrRefused, what)
	}
}

// Without Log, the backend trusts the caller's TTL and TickTime, and Check reports that.
func TestNoticesOfACallersConnection(t *testing.T) {
	_, raw := beside(t)
	b := newNodeOn(t, raw, Options{TTL: 30 * time.Second})
	require.Equal(t, defaultTick, b.tick)
	b.tick = 10 * time.Millisecond
	notices := peer.Must(b.Check(peer.Within(t, soon)))(t)
	require.Equal(t, []string{"tick-time?", "session-timeout?", "quorum"}, peer.IDs(notices))
}
