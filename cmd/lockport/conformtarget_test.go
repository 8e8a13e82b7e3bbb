package main

import (
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every server of a URL gets a proxy of its own; what one request needs is offered for a single server only.
func TestConformTarget(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{"redis://u:pw@a:1/1?prefix=x", "redlock://u:pw@a:1,b:2/1?prefix=x", "etcd://a:1,b:2", "zookeeper://a:1,b:2/chroot?ttl=2s"} {
		cfg, closeProxies, err := proxiedConfig(raw)
		require.NoError(t, err)
		require.Equal(t, raw, cfg.Direct)
		direct, err := url.Parse(raw)
		require.NoError(t, err)
		through, err := url.Parse(cfg.Target)
		require.NoError(t, err)
		proxies := strings.Split(through.Host, ",")
		require.Len(t, proxies, strings.Count(raw, ",")+1)
		require.NotContains(t, through.Host, direct.Host)
		through.Host = direct.Host
		require.Equal(t, raw, through.String(), "all but the addresses is as it was")
		faults := cfg.Faults
		require.Equal(t, len(proxies) == 1, faults.DropReply != nil && faults.CutAfter != nil)
		require.NotNil(t, faults.Sever)
		closeProxies()
		for _, addr := range proxies {
			_, err := net.Dial("tcp", addr)
			require.Error(t, err, "the proxy is closed")
		}
	}
	for _, raw := range []string{"redlocks://h:1", "etcds://h:1", "file:///tmp", "redis+sentinel://h:1"} {
		cfg, closeProxies, err := proxiedConfig(raw)
		require.NoError(t, err)
		closeProxies()
		require.Empty(t, cfg.Direct, raw)
	}
}

// A session's TTL is short, unless the URL asks for another.
func TestConformTargetOfASession(t *testing.T) {
	t.Parallel()
	require.Equal(t, "zookeeper://h:1?ttl=4s", withSessionTTL("zookeeper://h:1"))
	require.Equal(t, "zookeeper://h:1?ttl=30s", withSessionTTL("zookeeper://h:1?ttl=30s"))
	require.Equal(t, "redis://h:1", withSessionTTL("redis://h:1"))
}
