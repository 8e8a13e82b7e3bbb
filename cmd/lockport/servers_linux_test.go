package main

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/servers"
)

// realServers are the URLs of servers that all tests share, but for those of redlock.
var realServers = map[string]func(t *testing.T) string{
	"redis": func(t *testing.T) string { return servers.SharedRedis(t).URL() },
	"redlock": func(t *testing.T) string {
		var addrs []string
		for range 3 {
			addrs = append(addrs, servers.NeedRedis(t, servers.RedisOptions{}).Addr())
		}
		return "redlock://" + strings.Join(addrs, ",")
	},
	"etcd":      func(t *testing.T) string { return servers.SharedEtcd(t).URL() },
	"zookeeper": func(t *testing.T) string { return servers.SharedZooKeeper(t).URL() },
	"postgres":  func(t *testing.T) string { return servers.SharedPostgres(t).URL() },
	"mysql":     func(t *testing.T) string { return servers.SharedMariaDB(t).URL() },
}

// serverTests run side by side on one server of each of realServers, or of those that are named.
var serverTests = []struct {
	name string
	only []string
	test func(t *testing.T, url string)
}{
	{"silence", nil, testSilence},
	{"killed", nil, testKilled},
	{"no answer", nil, testNoAnswer},
	{"refusals", nil, testRefusals},
	{"keep", []string{"redis", "etcd"}, testKeep},
	{"holders", nil, testHolders},
	{"foreign holders", []string{"redis", "mysql"}, testForeignHolders},
	{"restricted users", []string{"redis", "postgres", "mysql"}, testRestrictedUsers},
	{"conform", []string{"redis", "zookeeper"}, testConform},
	{"doctor", []string{"redis", "etcd", "postgres"}, testDoctor},
	{"interrupted", []string{"redis"}, testInterrupted},
	{"break asks", []string{"redis"}, testBreakAsks},
	{"break of a holder that has gone", []string{"redis", "postgres"}, testBreakOfAHolderThatHasGone},
	{"break after a long thought", []string{"etcd", "zookeeper"}, testBreakAfterALongThought},
	{"break of a session", []string{"postgres", "mysql"}, testBreakOfASession},
	{"time to clean up", []string{"redis"}, testTimeToCleanUp},
	{"removal that only the release finds", []string{"redis"}, testRemovalThatOnlyTheReleaseFinds},
}

func TestServers(t *testing.T) {
	t.Parallel()
	for name, begin := range realServers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := begin(t)
			t.Run("status and break", func(t *testing.T) { testStatusAndBreak(t, url) }) // alone: it lists all locks
			for _, st := range serverTests {
				if st.only == nil || slices.Contains(st.only, name) {
					t.Run(st.name, func(t *testing.T) {
						t.Parallel()
						st.test(t, url)
					})
				}
			}
		})
	}
}

// scheme is the part of a URL that names its backend.
func scheme(url string) string {
	name, _, _ := strings.Cut(url, ":")
	return name
}

// proxied is rawURL with a proxy before each of its servers.
func proxied(t *testing.T, rawURL string) (string, faultproxy.Group) {
	t.Helper()
	through, all, err := faultproxy.ForURL(rawURL)
	require.NoError(t, err)
	require.NotEmpty(t, all)
	t.Cleanup(all.Close)
	return through, all
}

// testSilence: the servers fall silent while a command runs that ignores SIGTERM. It must be gone before somebody else, whose
// connection is whole, gets the lock.
func testSilence(t *testing.T, direct string) {
	through, proxies := proxied(t, direct)
	p := start(t, through, "run", "--ttl", "3s", "silence", "--", "sh", "-c", family)
	group := p.group(t)
	next := start(t, direct, "run", "--ttl", "3s", "silence", "--", "echo", "mine")
	for _, proxy := range proxies {
		proxy.Freeze()
	}
	next.says(t, "mine")
	require.False(t, groupAlive(group), "the lock was granted while the command lived")
	require.Equal(t, 79, p.code(t))
	require.Regexp(t, `^lockport: the lock server did not answer in time[^\n]+\n`, p.err.String())
	require.Equal(t, 0, next.code(t))
}

// testKilled: the lock of a lockport that was killed is free after the TTL, and its command does not outlive it.
func testKilled(t *testing.T, url string) {
	p := start(t, url, "run", "--ttl", "2s", "killed", "--", "sh", "-c", family)
	group := p.group(t)
	next := start(t, url, "run", "--ttl", "2s", "killed", "--", "echo", "mine")
	require.NoError(t, p.Process.Signal(syscall.SIGKILL))
	next.says(t, "mine")
	if scheme(url) == "postgres" || scheme(url) == "mysql" {
		// The server frees the lock when it sees the end of the connection, and the guard kills the command when it sees the end of its pipe: which is first is chance.
		eventually(t, func() bool { return !groupAlive(group) }, "the command lives on")
	}
	require.False(t, groupAlive(group), "the lock was granted while the command lived")
	require.Equal(t, 0, next.code(t))
}

func testConform(t *testing.T, url string) {
	stdout, _ := ran(t, 0, url, "conform", "--run", "^(contract|errors)/")
	require.NotContains(t, stdout, "needs Faults.Sever", "the proxies produce it")
	require.NotContains(t, stdout, "\n    ", "nothing failed")
}
