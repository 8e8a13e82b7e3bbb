package main

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/servers"
)

// left is how long the server keeps the key.
func left(t *testing.T, key string) time.Duration {
	t.Helper()
	ms, err := servers.SharedRedis(t).Do(t.Context(), "PTTL", key)
	require.NoError(t, err)
	return time.Duration(ms.(int64)) * time.Millisecond
}

// testTimeToCleanUp: a command that heeds SIGTERM gets the time of --kill-after, before the key expires.
func testTimeToCleanUp(t *testing.T, url string) {
	through, proxies := proxied(t, url)
	p := start(t, through, "run", "--ttl", "4s", "--kill-after", "1900ms", "manners", "--", "sh", "-c",
		`trap 'echo asked; sleep 0.5; echo cleaned up; exit 0' TERM; echo ready; while :; do sleep 0.01; done`)
	p.says(t, "ready")
	proxies[0].Freeze()
	p.says(t, "asked\ncleaned up\n")
	require.Positive(t, left(t, "lockport:manners"), "the key was gone before the command was")
	require.Equal(t, 79, p.code(t), "a command that was ended for the lock's sake has not succeeded")
}

// testRemovalThatOnlyTheReleaseFinds: the command succeeded, and its lock was gone meanwhile.
func testRemovalThatOnlyTheReleaseFinds(t *testing.T, url string) {
	cli := servers.NeedProgram(t, "redis-cli", "redis")
	host, port, err := net.SplitHostPort(servers.SharedRedis(t).Addr())
	require.NoError(t, err)
	_, stderr := ran(t, 79, url, "run", "--ttl", "60s", "late", "--", cli, "-h", host, "-p", port, "DEL", "lockport:late")
	require.Regexp(t, `^lockport: [^\n]*lost[^\n]*\n$`, stderr)
}
