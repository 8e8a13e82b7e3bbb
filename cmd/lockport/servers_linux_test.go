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

// realServers start servers, and return the URL that leads to their locks.
var realServers = map[string]func(t *testing.T) string{
	"redis": func(t *testing.T) string { return servers.NeedRedis(t, servers.RedisOptions{}).URL() },
	"redlock": func(t *testing.T) string {
		var addrs []string
		for range 3 {
			addrs = append(addrs, servers.NeedRedis(t, servers.RedisOptions{}).Addr())
		}
		return "redlock://" + strings.Join(addrs, ",")
	},
	"etcd":      func(t *testing.T) string { return servers.NeedEtcd(t, servers.EtcdOptions{}).URL() },
	"zookeeper": func(t *testing.T) string { return servers.NeedZooKeeper(t, servers.ZooKeeperOptions{}).URL() },
	"postgres":  func(t *testing.T) string { return servers.NeedPostgres(t, servers.PostgresOptions{}).URL() },
	"mysql":     func(t *testing.T) string { return servers.NeedMariaDB(t, servers.MariaDBOptions{}).URL() },
}

// serverTests run side by side on one server of each of realServers, or of those that are named.
var serverTests = []struct {
	name string
	only []string
	test func(t *testing.T, url string)
}{
	{"silence", nil, testSilence},
	{"killed", nil, testKilled},
	{"conform", []string{"redis", "zookeeper"}, testConform},
	{"doctor", []string{"redis", "etcd", "postgres"}, testDoctor},
	{"doctor interrupted", []string{"redis"}, testDoctorInterrupted},
	{"no answer", nil, testNoAnswer},
	{"break asks", []string{"redis"}, testBreakAsks},
	{"break of a holder that has gone", []string{"redis", "postgres"}, testBreakOfAHolderThatHasGone},
	{"break after a long thought", []string{"etcd", "zookeeper"}, testBreakAfterALongThought},
	{"break of a session", []string{"postgres", "mysql"}, testBreakOfASession},
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
	require.Regexp(t, `^lockport: the lock server was not heard from in time[^\n]+\n`, p.err.String())
	require.Equal(t, 0, next.code(t))
}

// testKilled: the lock of a lockport that was killed is free after the TTL, and its command does not outlive it.
func testKilled(t *testing.T, url string) {
	p := start(t, url, "run", "--ttl", "2s", "killed", "--", "sh", "-c", family)
	group := p.group(t)
	next := start(t, url, "run", "--ttl", "2s", "killed", "--", "echo", "mine")
	require.NoError(t, p.Process.Signal(syscall.SIGKILL))
	next.says(t, "mine")
	if strings.HasPrefix(url, "postgres:") || strings.HasPrefix(url, "mysql:") {
		// The server frees the lock when it sees the end of the connection, and the guard kills the command when it sees the end of its pipe: which is first is chance.
		eventually(t, func() bool { return !groupAlive(group) }, "the command lives on")
	}
	require.False(t, groupAlive(group), "the lock was granted while the command lived")
	require.Equal(t, 0, next.code(t))
}

func testConform(t *testing.T, url string) {
	code, stdout, stderr := output(t, url, "conform", "--run", "^(contract|errors)/")
	require.Equal(t, 0, code, stdout+stderr)
	require.NotContains(t, stdout, "needs Faults.Sever", "the proxies produce it")
	require.NotContains(t, stdout, "\n    ", "nothing failed")
}

// TestServersRefusals lists what cannot hold locks: the exit code, and a piece of the one line that says why.
func TestServersRefusals(t *testing.T) {
	t.Parallel()
	nobody := servers.Nobody(t)
	securedRedis := servers.NeedRedis(t, servers.RedisOptions{Password: "right-secret"})
	master := servers.NeedRedis(t, servers.RedisOptions{})
	replica := servers.NeedReplica(t, master)
	full := servers.NeedRedis(t, servers.RedisOptions{MaxMemory: "1"})
	old := servers.NewFakeRedis(t, "5.0.14")
	secured := servers.NeedEtcd(t, servers.EtcdOptions{RootPassword: "right-secret"})
	etcd := servers.NeedEtcd(t, servers.EtcdOptions{})
	keeper := servers.NeedZooKeeper(t, servers.ZooKeeperOptions{})
	postgres := servers.NeedPostgres(t, servers.PostgresOptions{})
	maria := servers.NeedMariaDB(t, servers.MariaDBOptions{})
	for _, tt := range []struct {
		name, url string
		code      int
		line      string
	}{
		{"redis: no server", "redis://" + nobody, 69, "refused"},
		{"redis: no host", "redis://no-such-host.invalid", 69, "no-such-host.invalid"},
		{"redis: wrong password", "redis://:wrong-secret@" + securedRedis.Addr(), 69, "WRONGPASS"},
		{"redis: no password", "redis://" + securedRedis.Addr(), 69, "NOAUTH"},
		{"redis: old version", old.URL(), 69, "6.2"},
		{"redis: replica", replica.URL(), 69, "replica"},
		{"redis: out of memory", full.URL(), 69, "memory"},
		{"redis: unknown parameter", master.URL() + "?speed=high", 64, "speed"},
		{"redis: TTL too small", master.URL() + "?ttl=1ms", 64, "TTL"},
		{"redlock: two nodes", "redlock://" + nobody + ",127.0.0.1:1", 64, "at least 3"},
		{"redlock: four nodes", "redlock://" + nobody + ",127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", 64, "odd"},
		{"redlock: the same node twice", "redlock://" + nobody + ",127.0.0.1:1," + nobody, 64, "twice"},
		{"redlock: nobody there", "redlock://127.0.0.1:1,127.0.0.1:2," + nobody, 69, "refused"},
		{"redlock: unknown parameter", "redlock://h1,h2,h3?speed=high", 64, "speed"},
		{"etcd: nobody there", "etcd://" + nobody, 69, nobody},
		{"etcd: wrong password", "etcd://root:wrong-secret@" + secured.Addr(), 69, "password"},
		{"etcd: no password", "etcd://" + secured.Addr(), 69, "user"},
		{"etcd: TTL too small", "etcd://" + etcd.Addr() + "?ttl=100ms", 64, "TTL"},
		{"etcd: unknown parameter", "etcd://" + etcd.Addr() + "?speed=high", 64, "speed"},
		{"zookeeper: nobody there", "zookeeper://" + nobody, 69, nobody},
		{"zookeeper: TTL too small", "zookeeper://" + keeper.Addr() + "?ttl=150ms", 69, "TTL"},
		{"zookeeper: unknown parameter", "zookeeper://" + keeper.Addr() + "?speed=high", 64, "speed"},
		{"postgres: nobody there", "postgres://u:secret@" + nobody + "/db?sslmode=disable", 69, nobody},
		{"postgres: wrong password", "postgres://lockport:wrong-secret@" + postgres.Addr() + "/lockport", 69, "password"},
		{"postgres: wrong database", strings.TrimSuffix(postgres.URL(), "lockport") + "nowhere", 69, "nowhere"},
		{"postgres: unknown parameter", postgres.URL() + "?speed=high", 64, "speed"},
		{"mysql: nobody there", "mysql://u:secret@" + nobody + "/db", 69, nobody},
		{"mysql: wrong password", "mysql://lockport:wrong-secret@" + maria.Addr() + "/lockport", 69, "password"},
		{"mysql: wrong database", strings.TrimSuffix(maria.URL(), "lockport") + "nowhere", 69, "nowhere"},
		{"mysql: unknown parameter", maria.URL() + "?speed=high", 64, "speed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			refuses(t, tt.url, tt.code, tt.line, "run", "a", "--", "echo", "no")
		})
	}
}
