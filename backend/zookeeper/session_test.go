package zookeeper

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
)

// The leader has heard of a session if an answer came a tick before a request was sent that a quorum answered.
func TestConfirmation(t *testing.T) {
	t.Parallel()
	const tick, keep = time.Second, 50 * time.Second
	zero := time.Now()
	at := func(s float64) time.Time { return zero.Add(time.Duration(s * float64(time.Second))) }
	s := &session{id: 1, confirmed: at(0)}
	quorum := func(sent float64) time.Time {
		fresh := &session{id: 1, confirmed: at(0), exchanges: s.exchanges}
		fresh.answered(exchange{at(sent), at(sent + 60)}, true, tick, keep)
		return fresh.confirmed
	}
	look := func(sent, answered float64) { s.answered(exchange{at(sent), at(answered)}, false, tick, keep) }
	require.Equal(t, at(0), quorum(0.5), "only its opening is known")
	look(1, 1.5)
	look(2, 30) // a slow second one: it may have reached the server at any time
	look(1.9, 29)
	require.Equal(t, at(0), s.confirmed, "it needs a quorum")
	require.Equal(t, at(0), quorum(2.4))
	require.Equal(t, at(1), quorum(2.5))
	require.Equal(t, at(1), quorum(30.9), "it was sent long before, but perhaps it arrived together with the request")
	require.Equal(t, at(2), quorum(31))
	s.answered(exchange{at(31), at(31.1)}, true, tick, keep)
	require.Equal(t, at(2), s.confirmed)
	s.answered(exchange{at(2.5), at(40)}, true, tick, keep)
	require.Equal(t, at(2), s.confirmed, "a later, weaker proof takes nothing back")
	for i := range 10_000 {
		look(50+float64(i)/100, 50.005+float64(i)/100)
	}
	require.Equal(t, at(2), s.confirmed, "none of these took a quorum")
	require.Less(t, len(s.exchanges), 150, "old exchanges are forgotten")
	require.InDelta(t, 148, quorum(149.5).Sub(zero).Seconds(), 0.6)
}

// The server opens a session before its answer arrives: neither a look in between nor the answer makes the session younger. So the
// validity of its first claim counts from before the handshake, whichever session the look before that found: none, or one that has expired.
func TestLooksDuringAHandshake(t *testing.T) {
	s, raw := beside(t)
	proxy, name := peer.Proxy(t, s.Addr()), fresh(t)
	creates(t, raw, "/"+name, world)
	const delay = 300 * time.Millisecond // each way
	proxy.Delay(delay)
	for _, last := range []int64{0, 1} {
		begun := time.Now()
		conn, o := newConn(t, 10*time.Second, proxy.Addr())
		b := newNodeOn(t, conn, o)
		b.session, b.observed = session{id: last}, begun
		<-time.After(delay * 3 / 2) // the answer is under way
		granted := make(chan driver.Lease, 1)
		go func() { granted <- b.Takes(request(b, name)) }()
		peer.Until(t, func() bool { return sessionOf(b) != 0 })
		opened := time.Now().Add(-delay) // or before
		b.mu.Lock()
		confirmed := b.session.confirmed
		b.mu.Unlock()
		require.False(t, confirmed.After(opened), "confirmed %v after the server opened it", confirmed.Sub(opened))
		lease := peer.Eventually(t, granted)
		require.Greater(t, time.Since(begun), 2*delay)
		require.Less(t, lease.Grant().Until.Sub(begun), b.o.TTL+250*time.Millisecond, "counted from the answer")
		b.Frees(lease)
	}
}

// A busy server may end the shortest session before its answer, and hang up. It is asked again.
func TestProbeIsRepeated(t *testing.T) {
	t.Parallel()
	proxy := peer.Proxy(t, servers.SharedZooKeeper(t).Addr())
	for range probes / 2 {
		proxy.CutAfter(1)
	}
	b := newBackend(t, Options{}, proxy.Addr())
	b.Frees(b.Takes(request(b, t.Name())))
	require.Equal(t, 100*time.Millisecond, b.tick)
}

// With the tick of ZooKeeper's sample configuration and a TTL of five ticks, more than half of the TTL is left at any time.
func TestOrdinaryTick(t *testing.T) {
	t.Parallel()
	const ttl = 10 * time.Second
	s := servers.NeedZooKeeper(t, servers.ZooKeeperOptions{Config: []string{"tickTime=2000"}})
	c, b := newClient(t, Options{TTL: ttl}, s.Addr())
	l := peer.Holds(t, c, "x")
	require.Never(t, func() bool {
		deadline, _ := l.Deadline()
		return time.Until(deadline) < ttl*45/100
	}, ttl, 50*time.Millisecond)
	require.Nil(t, b.o.Log.why.Load(), "the connection was lost")
	require.NoError(t, l.Release(t.Context()))
}

// A session may be moved to a server with other limits. With a smaller maxSessionTimeout, its holders counted on the longer one: they are told before
// their nodes are deleted. With a larger minSessionTimeout, holds go on. New claims may fit neither, and end no hold.
func TestChangedTimeout(t *testing.T) {
	t.Parallel()
	s := servers.NeedZooKeeper(t, servers.ZooKeeperOptions{})
	proxy := peer.Proxy(t, s.Addr())
	c, b := newClient(t, Options{TTL: 12 * time.Second}, proxy.Addr())
	var raw *zk.Conn
	file := filepath.Join(s.Dir(), "zoo.cfg")
	config, err := os.ReadFile(file)
	require.NoError(t, err)
	moves := func(limit string) {
		proxy.Cut()
		require.NoError(t, os.WriteFile(file, append(bytes.Clone(config), limit...), 0o600))
		require.NoError(t, s.Restart(t.Context()))
		raw = newRaw(t, s.Addr()) // the earlier connection may have reached a server that was just starting, which never answers
		proxy.Restore()
		peer.Until(t, func() bool { return b.ready(peer.Within(t, soon)) == nil && b.ping() == nil })
	}
	l := peer.Holds(t, c, "x")
	var node Node
	require.True(t, l.As(&node))
	moves("maxSessionTimeout=5000")
	peer.Until(t, func() bool {
		_, err = c.TryAcquire(t.Context(), "y")
		there, _, failed := raw.Exists(node.Path)
		return failed == nil && !there
	})
	require.ErrorContains(t, l.Err(), "shortened the session's timeout from 12s to 5s")
	require.ErrorIs(t, err, lockport.ErrRefused)
	moves("")
	peer.Until(t, func() bool { l, err = c.TryAcquire(t.Context(), "y"); return err == nil })
	moves("minSessionTimeout=20000")
	require.Never(t, func() bool {
		_, err := c.TryAcquire(t.Context(), "z")
		return !errors.Is(err, lockport.ErrRefused) || !l.Valid()
	}, time.Second, time.Millisecond)
}

func TestSilentServerIsLeft(t *testing.T) {
	s, _ := beside(t)
	proxies := []*faultproxy.Proxy{peer.Proxy(t, s.Addr()), peer.Proxy(t, s.Addr())}
	n := newBackend(t, Options{TTL: 2 * peer.Soon}, proxies[0].Addr(), proxies[1].Addr()) // go-zookeeper would wait two thirds of that
	session := func() int64 { peer.Shows(t, n, "a"); return sessionOf(n) }
	first := session()
	peer.Until(t, func() bool { return proxies[0].Conns()+proxies[1].Conns() == 1 }) // without the probe's
	proxies[proxies[1].Conns()].Freeze()
	peer.Until(t, func() bool { return peer.ErrOf(n.Inspect(t.Context(), "a")) == nil })
	require.Equal(t, first, session())
}
