package main

import (
	"database/sql"
	"slices"
	"strings"
	"syscall"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/servers"
)

// realServers are the URLs of servers that all tests share, but for those of redlock. A soak is for each of them.
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

// serverTests run side by side on the servers that they name, which have TTLs (redis) and sessions: what differs between backends beyond that is the
// business of the conformance suite.
var serverTests = []struct {
	name string
	on   []string
	test func(t *testing.T, url string)
}{
	{"silence", []string{"redis", "postgres"}, testSilence},
	{"killed", []string{"redis", "mysql"}, testKilled},
	{"no answer", []string{"redis", "postgres"}, testNoAnswer},
	{"refusals", []string{"redis"}, testRefusals},
	{"keep", []string{"redis"}, testKeep},
	{"holders", []string{"redis", "postgres"}, testHolders},
	{"foreign holders", []string{"redis", "mysql"}, testForeignHolders},
	{"restricted users", []string{"redis", "mysql"}, testRestrictedUsers},
	{"conform", []string{"redis"}, testConform},
	{"doctor", []string{"redis"}, testDoctor},
	{"interrupted", []string{"redis"}, testInterrupted},
	{"break asks", []string{"redis"}, testBreakAsks},
	{"break of a holder that has gone", []string{"redis"}, testBreakOfAHolderThatHasGone},
	{"break of a session", []string{"postgres", "mysql"}, testBreakOfASession},
	{"time to clean up", []string{"redis"}, testTimeToCleanUp},
	{"removal that only the release finds", []string{"redis"}, testRemovalThatOnlyTheReleaseFinds},
}

func TestServers(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"redis", "postgres", "mysql"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := realServers[name](t)
			t.Run("status and break", func(t *testing.T) { testStatusAndBreak(t, url) }) // alone: it lists all locks
			for _, st := range serverTests {
				if slices.Contains(st.on, name) {
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
	if scheme(url) == "mysql" {
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

// testRestrictedUsers: a user who may not look is told so in one line, and so is one who may look and not break.
func testRestrictedUsers(t *testing.T, url string) {
	holder, _ := holding(t, url, "restricted")
	look, end := []string{"status", "restricted"}, []string{"break", "--yes", "restricted"}
	var refused map[string][][]string // by a word of the line
	if scheme(url) == "redis" {
		server := servers.SharedRedis(t)
		_, err := server.Do(t.Context(), "ACL", "SETUSER", "reader", "on", ">secret", "~*", "+get", "+ping", "+hello")
		require.NoError(t, err)
		url, refused = server.UserURL("reader", "secret"), map[string][][]string{"NOPERM": {look, {"status"}, end}}
	} else {
		server := servers.SharedMariaDB(t)
		admin, err := sql.Open("mysql", server.AdminDSN())
		require.NoError(t, err)
		t.Cleanup(func() { _ = admin.Close() })
		for _, statement := range []string{"CREATE USER looker@'%' IDENTIFIED BY 'secret'", "GRANT SELECT ON lockport.lockport_fence TO looker@'%'"} {
			_, err := admin.ExecContext(t.Context(), statement)
			require.NoError(t, err)
		}
		url, refused = server.UserURL("looker", "secret"), map[string][][]string{"CONNECTION ADMIN": {end}}
		require.Equal(t, holder.Process.Pid, statusJSON(t, url, "restricted")[0].PID)
	}
	for word, all := range refused {
		for _, args := range all {
			stdout, stderr := ran(t, 69, url, args...)
			require.Empty(t, stdout)
			require.Regexp(t, `(?:^|\n)lockport: [^\n]*`+word+`[^\n]*\n$`, stderr)
			require.NotContains(t, stderr, "secret")
		}
	}
	require.False(t, holder.ended())
}
