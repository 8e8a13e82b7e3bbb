package main

import (
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// echoServer sends back what it gets.
func echoServer(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
		}
	}()
	return l.Addr().String()
}

// Every server of a URL gets a proxy of its own, and a fault is one of them all.
func TestConformTargetOfSeveralServers(t *testing.T) {
	t.Parallel()
	a, b := echoServer(t), echoServer(t)
	for _, raw := range []string{"redis://u:pw@" + a + "/1?prefix=x", "redlock://u:pw@" + a + "," + b + "/1?prefix=x", "etcd://" + a + "," + b,
		"zookeeper://" + a + "," + b + "/chroot?ttl=2s"} {
		target, err := newConformTarget(raw)
		require.NoError(t, err)
		require.True(t, target.proxied)
		require.Equal(t, raw, target.config.Direct)
		u, err := url.Parse(target.config.Target)
		require.NoError(t, err)
		proxied := strings.Split(u.Host, ",")
		u.Host = a
		if strings.Contains(raw, ",") {
			u.Host += "," + b
		}
		require.Equal(t, raw, u.String(), "all but the addresses is as it was")
		require.Len(t, proxied, strings.Count(raw, ",")+1)
		faults := target.config.Faults
		require.Equal(t, len(proxied) == 1, faults.DropReply != nil && faults.CutAfter != nil)
		var conns []net.Conn
		for i, addr := range proxied {
			require.NotContains(t, []string{a, b}, addr)
			c, err := net.Dial("tcp", addr)
			require.NoError(t, err)
			conns = append(conns, c)
			require.NoError(t, echoes(c))
			n, err := faults.Conns(t.Context())
			require.NoError(t, err)
			require.Equal(t, i+1, n)
		}
		n, err := faults.Requests(t.Context())
		require.NoError(t, err)
		require.Equal(t, int64(1), n, "what every server was asked counts once")
		require.NoError(t, faults.Sever(t.Context()))
		for _, c := range conns {
			require.Error(t, echoes(c))
			require.NoError(t, c.Close())
		}
		faults.Restore()
		for _, addr := range proxied {
			c, err := net.Dial("tcp", addr)
			require.NoError(t, err)
			require.NoError(t, echoes(c))
			require.NoError(t, c.Close())
		}
		target.close()
		for _, addr := range proxied {
			_, err := net.Dial("tcp", addr)
			require.Error(t, err, "the proxy is closed")
		}
	}
	for _, raw := range []string{"redlocks://" + a, "etcds://" + a, "file:///tmp", "redis+sentinel://" + a} {
		target, err := newConformTarget(raw)
		require.NoError(t, err)
		require.False(t, target.proxied, raw)
	}
}

func echoes(c net.Conn) error {
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := c.Write([]byte("x")); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return err
}

// A session's TTL is short, unless the URL asks for another.
func TestConformTargetOfASession(t *testing.T) {
	t.Parallel()
	require.Equal(t, "zookeeper://h:1?ttl=4s", withSessionTTL("zookeeper://h:1"))
	require.Equal(t, "zookeeper://h:1?ttl=30s", withSessionTTL("zookeeper://h:1?ttl=30s"))
	require.Equal(t, "redis://h:1", withSessionTTL("redis://h:1"))
}
