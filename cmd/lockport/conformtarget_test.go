package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The suite runs through proxies where it can; what one request needs is offered for a single server only.
func TestConformTarget(t *testing.T) {
	t.Parallel()
	for raw, servers := range map[string]int{
		"redis://u:pw@a:1/1?prefix=x": 1, "redlock://u:pw@a:1,b:2/1?prefix=x": 2, "etcd://a:1,b:2": 2, "zookeeper://a:1,b:2/chroot?ttl=2s": 2,
		"redlocks://h:1": 0, "etcds://h:1": 0, "file:///tmp": 0, "redis+sentinel://h:1": 0,
	} {
		cfg, closeProxies, err := proxiedConfig(raw)
		require.NoError(t, err)
		closeProxies()
		if servers == 0 {
			require.Empty(t, cfg.Direct, raw)
			continue
		}
		require.Equal(t, raw, cfg.Direct)
		require.NotEqual(t, raw, cfg.Target)
		require.NotNil(t, cfg.Faults.Sever)
		require.Equal(t, servers == 1, cfg.Faults.DropReply != nil && cfg.Faults.CutAfter != nil)
	}
}

// A session's TTL is short, unless the URL asks for another.
func TestConformTargetOfASession(t *testing.T) {
	t.Parallel()
	require.Equal(t, "zookeeper://h:1?ttl=4s", withSessionTTL("zookeeper://h:1"))
	require.Equal(t, "zookeeper://h:1?ttl=30s", withSessionTTL("zookeeper://h:1?ttl=30s"))
	require.Equal(t, "redis://h:1", withSessionTTL("redis://h:1"))
}
