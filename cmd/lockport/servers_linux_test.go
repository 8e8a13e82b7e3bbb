package main

import (
	"database/sql"
	"flag"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
)

// realServers are the URLs of servers that all tests share, except redlock's. A soak uses each of them.
var realServers = map[string]func(t *testing.T) string{
	"redis": func(t *testing.T) string { return servers.SharedRedis(t).URL() },
	"redlock": func(t *testing.T) string {
		node := func() string { return servers.NeedRedis(t, servers.RedisOptions{}).Addr() }
		return "redlock://" + node() + "," + node() + "," + node()
	},
	"etcd":      func(t *testing.T) string { return servers.SharedEtcd(t).URL() },
	"zookeeper": func(t *testing.T) string { return servers.SharedZooKeeper(t).URL() },
	"postgres":  func(t *testing.T) string { return servers.SharedPostgres(t).URL() },
	"mysql":     func(t *testing.T) string { return servers.SharedMariaDB(t).URL() },
	"table":     func(t *testing.T) string { return "table+" + servers.SharedPostgres(t).URL() + "?create=true" },
}

// serverTests run in parallel: redis has TTLs, the others have sessions. The conformance suite covers the other differences between backends.
var serverTests = []struct {
	name string
	on   []string
	test func(t *testing.T, url string)
}{
	{"silence", []string{"redis", "postgres"}, testSilence},
	{"killed", []string{"redis", "mysql"}, testKilled},
	{"no answer", []string{"redis", "postgres"}, testNoAnswer},
	{"hung server", []string{"mysql"}, testHungServer},
	{"guard acts", []string{"redis"}, testGuardActs},
	{"on lost ignore", []string{"redis"}, testOnLostIgnore},
	{"keep", []string{"redis"}, testKeep},
	{"holders", []string{"redis", "postgres"}, testHolders},
	{"foreign holder", []string{"redis"}, testForeignHolder},
	{"restricted user", []string{"mysql"}, testRestrictedUser},
	{"conform", []string{"redis"}, testConform},
	{"interrupted", []string{"redis"}, testInterrupted},
	{"break asks", []string{"redis"}, testBreakAsks},
	{"break of a holder that has gone", []string{"redis"}, testBreakOfAHolderThatHasGone},
	{"break of a session", []string{"postgres", "mysql"}, testBreakOfASession},
	{"time to clean up", []string{"redis"}, testTimeToCleanUp},
	{"short wait", []string{"redis"}, testShortWait},
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

// testSilence: the servers go silent. A command that ignores SIGTERM must be gone before another client, whose connection works, gets the lock.
func testSilence(t *testing.T, direct string) {
	through, proxies := proxied(t, direct)
	p := start(t, through, "run", "--ttl", "3s", "silence", "--", "sh", "-c", family)
	group := p.group(t)
	next := start(t, direct, "run", "--ttl", "3s", "silence", "--", "echo", "mine")
	proxies.Each((*faultproxy.Proxy).Freeze)
	next.says(t, "mine")
	require.False(t, groupAlive(group), "the lock was granted while the command lived")
	require.Equal(t, 79, p.code(t))
	require.Regexp(t, `^lockport: no renewal was confirmed in time[^\n]+\n$`, p.err.String())
	require.Equal(t, 0, next.code(t))
}

// testHungServer: run ends soon if its server is silent, although each request may take 5 s or more.
func testHungServer(t *testing.T, direct string) {
	through, proxies := proxied(t, direct)
	holder := holds(t, through, "--ttl", "3s", "hung")
	proxies[0].Freeze()
	begun := time.Now()
	refuses(t, through, 69, proxies[0].Addr(), "run", "-n", "hung", "--", "true")
	require.Equal(t, 79, holder.code(t)) // its command ended after 2 s
	require.Less(t, time.Since(begun), 9*time.Second)
}

// testKilled: if lockport is killed, its lock becomes free after the TTL, and its command does not outlive the lock.
func testKilled(t *testing.T, url string) {
	p := start(t, url, "run", "--ttl", "2s", "killed", "--", "sh", "-c", family)
	group := p.group(t)
	next := start(t, url, "run", "--ttl", "2s", "killed", "--", "echo", "mine")
	require.NoError(t, p.Process.Signal(syscall.SIGKILL))
	next.says(t, "mine")
	if scheme(url) == "mysql" {
		// The server frees the lock when its connection ends. The guard kills the command when its pipe ends. Their order is random.
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

// testRestrictedUser: a user who may inspect but not break gets a one-line error.
func testRestrictedUser(t *testing.T, url string) {
	holder := holds(t, url, "restricted")
	server := servers.SharedMariaDB(t)
	admin := peer.Must(sql.Open("mysql", server.AdminDSN()))(t)
	t.Cleanup(func() { _ = admin.Close() })
	for _, statement := range []string{"CREATE USER looker@'%' IDENTIFIED BY 'secret'", "GRANT SELECT ON lockport.lockport_fence TO looker@'%'"} {
		require.NoError(t, peer.ErrOf(admin.ExecContext(t.Context(), statement)))
	}
	url = server.UserURL("looker", "secret")
	require.Equal(t, holder.Process.Pid, statusJSON(t, url, "restricted")[0].PID)
	stdout, stderr := ran(t, 69, url, "break", "--yes", "restricted")
	require.Empty(t, stdout)
	require.Regexp(t, `\nlockport: [^\n]*CONNECTION ADMIN[^\n]*\n$`, stderr)
	require.NotContains(t, stderr, "secret")
	require.False(t, holder.ended())
}

// testTimeToCleanUp: a command that handles SIGTERM gets the time of --kill-after before the key expires.
func testTimeToCleanUp(t *testing.T, url string) {
	through, proxies := proxied(t, url)
	p := start(t, through, "run", "--ttl", "4s", "--kill-after", "1900ms", "manners", "--", "sh", "-c",
		`trap 'echo asked; sleep 0.5; echo cleaned up; exit 0' TERM; echo ready; while :; do sleep 0.01; done`)
	p.says(t, "ready")
	proxies[0].Freeze()
	p.says(t, "asked\ncleaned up\n")
	left := func() any { return peer.Must(servers.SharedRedis(t).Do(t.Context(), "PTTL", "lockport:manners"))(t) }
	require.Positive(t, left(), "the key was gone before the command was")
	proxies[0].Restore()
	require.Equal(t, 79, p.code(t), "a command that was ended because of the lock has not succeeded")
	require.Negative(t, left(), "the lock was not released")
}

// testShortWait: a wait that is shorter than the opening of a distant server takes a free lock, and tells a held one.
func testShortWait(t *testing.T, url string) {
	through, proxies := proxied(t, url)
	proxies[0].Delay(100 * time.Millisecond)
	ran(t, 0, through, "run", "-w", "50ms", "distant", "--", "true")
	holds(t, url, "distant")
	for _, wait := range []string{"50ms", "250ms", "350ms", "450ms", "550ms", "650ms"} { // the time is over during each of the first requests
		refuses(t, through, 75, `waited `+wait+`: "distant" is held by`, "run", "-w", wait, "distant", "--", "true")
	}
}

// testRemovalThatOnlyTheReleaseFinds: the command succeeded, but its lock was gone meanwhile.
func testRemovalThatOnlyTheReleaseFinds(t *testing.T, url string) {
	cli := servers.NeedProgram(t, "redis-cli")
	_, stderr := ran(t, 79, url, "run", "--ttl", "60s", "late", "--", cli, "-u", url, "DEL", "lockport:late")
	require.Regexp(t, `^lockport: [^\n]*lost[^\n]*\n$`, stderr)
}

var (
	soakFor        = flag.Duration("soak", 0, "how long TestSoak soaks each backend (make soak-crowd)")
	soakProcesses  = flag.Int("processes", 4, "how many processes a soak has")
	soakGoroutines = flag.Int("goroutines", 512, "how many goroutines each process has")
)

// TestSoak runs crowds of processes against every backend, one after the other. Each backend's suite has the short form, exclusion/crowd.
func TestSoak(t *testing.T) {
	if *soakFor == 0 {
		t.Skip("not run: takes long; make soak-crowd FOR=1m runs it")
	}
	all := maps.Clone(realServers)
	all["memory"] = func(t *testing.T) string { return "memory:" + t.Name() }
	all["file"] = folder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			url := all[name](t)
			require.NoError(t, peer.Must(openServer(t.Context(), url))(t).Close()) // creates the table
			report := conformance.Soak(t.Context(), suiteConfig(url), conformance.SoakOptions{
				For: *soakFor, Processes: *soakProcesses, Goroutines: *soakGoroutines, KillEvery: min(20*time.Second, *soakFor/3),
			})
			require.True(t, report.OK(), "%v", report)
			t.Log(report)
		})
	}
}
