package main

import (
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/servers"
)

func proxyTo(t *testing.T, server *servers.Redis) *faultproxy.Proxy {
	t.Helper()
	proxy, err := faultproxy.New(server.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { proxy.Close() })
	return proxy
}

// left is how long the server keeps the key.
func left(t *testing.T, server *servers.Redis, key string) time.Duration {
	t.Helper()
	ms, err := server.Do(t.Context(), "PTTL", key)
	require.NoError(t, err)
	return time.Duration(ms.(int64)) * time.Millisecond
}

// TestRedisSilence: the server falls silent while a command runs that ignores SIGTERM, and so do its children. All must be gone
// before the server's key, and with it the lock, is.
func TestRedisSilence(t *testing.T) {
	t.Parallel()
	server := servers.NeedRedis(t, servers.RedisOptions{})
	proxy := proxyTo(t, server)
	p := start(t, "redis://"+proxy.Addr(), "run", "--ttl", "3s", "silence", "--", "sh", "-c", family)
	group := p.group(t)
	require.Positive(t, left(t, server, "lockport:silence"))
	proxy.Freeze()
	eventually(t, func() bool { return !groupAlive(group) }, "group %d lives on", group)
	require.Positive(t, left(t, server, "lockport:silence"), "the key was gone before the command was")
	require.Equal(t, 79, p.code(t))
	require.Regexp(t, `^lockport: the lock server was not heard from in time[^\n]+\n`, p.err.String())
}

// TestRedisSilenceLeavesTimeToCleanUp: a command that heeds SIGTERM gets the time of --kill-after, before the key expires.
func TestRedisSilenceLeavesTimeToCleanUp(t *testing.T) {
	t.Parallel()
	server := servers.NeedRedis(t, servers.RedisOptions{})
	proxy := proxyTo(t, server)
	p := start(t, "redis://"+proxy.Addr(), "run", "--ttl", "4s", "--kill-after", "1900ms", "manners", "--", "sh", "-c",
		`trap 'echo asked; sleep 0.5; echo cleaned up; exit 0' TERM; echo ready; while :; do sleep 0.01; done`)
	p.says(t, "ready")
	proxy.Freeze()
	p.says(t, "asked\ncleaned up\n")
	require.Positive(t, left(t, server, "lockport:manners"), "the key was gone before the command was")
	require.Equal(t, 79, p.code(t), "a command that was ended for the lock's sake has not succeeded")
}

// TestRedisShortSilence: an outage that a renewal survives is nobody's business.
func TestRedisShortSilence(t *testing.T) {
	t.Parallel()
	server := servers.NeedRedis(t, servers.RedisOptions{})
	proxy := proxyTo(t, server)
	p := start(t, "redis://"+proxy.Addr(), "run", "--ttl", "6s", "hiccup", "--", "sh", "-c",
		`trap 'echo asked' TERM; echo ready; while :; do sleep 0.01; done`)
	p.says(t, "ready")
	eventually(t, func() bool { return left(t, server, "lockport:hiccup") < 5*time.Second }, "not held")
	proxy.KillConns()
	eventually(t, func() bool { return left(t, server, "lockport:hiccup") > 5*time.Second }, "not renewed")
	require.NoError(t, p.Process.Signal(syscall.SIGHUP))
	require.Equal(t, 129, p.code(t))
	require.Empty(t, p.err.String())
}

// TestRedisRemoval deletes the key: SIGTERM at once, SIGKILL after --kill-after, exit code 79.
func TestRedisRemoval(t *testing.T) {
	t.Parallel()
	server := servers.NeedRedis(t, servers.RedisOptions{})
	for name, script := range map[string]string{
		"removal-heeded":  `trap 'echo asked; exit 0' TERM; echo ready; while :; do sleep 0.01; done`,
		"removal-ignored": `trap 'echo asked' TERM; echo ready; while :; do sleep 0.01; done`,
	} {
		p := start(t, server.URL(), "run", "--ttl", "4s", "--kill-after", "1s", name, "--", "sh", "-c", script)
		p.says(t, "ready")
		_, err := server.Do(t.Context(), "DEL", "lockport:"+name)
		require.NoError(t, err)
		p.says(t, "asked\n")
		require.Equal(t, 79, p.code(t))
		require.Regexp(t, `^lockport: [^\n]*lost[^\n]*; ending the command\n`, p.err.String()) // and then sh, that sleep was ended
	}
}

// TestRedisRemovalThatOnlyTheReleaseFinds: the command succeeded, and its lock was gone meanwhile.
func TestRedisRemovalThatOnlyTheReleaseFinds(t *testing.T) {
	t.Parallel()
	server := servers.NeedRedis(t, servers.RedisOptions{})
	cli := servers.NeedRedisCLI(t)
	host, port, err := net.SplitHostPort(server.Addr())
	require.NoError(t, err)
	code, _, stderr := output(t, server.URL(), "run", "--ttl", "60s", "late", "--", cli, "-h", host, "-p", port, "DEL", "lockport:late")
	require.Equal(t, 79, code)
	require.Regexp(t, `^lockport: [^\n]*lost[^\n]*\n$`, stderr)
}

// TestRedisRefusals lists servers that cannot hold locks: exit code 69, and a piece of the one line that says why.
func TestRedisRefusals(t *testing.T) {
	t.Parallel()
	secured := servers.NeedRedis(t, servers.RedisOptions{Password: "right-secret"})
	master := servers.NeedRedis(t, servers.RedisOptions{Own: true})
	replica := servers.NeedReplica(t, master)
	full := servers.NeedRedis(t, servers.RedisOptions{MaxMemory: "1", Own: true})
	old := servers.NewFakeRedis(t, "5.0.14")
	nobody := servers.Nobody(t)
	for _, tt := range []struct {
		name, url string
		code      int
		line      string
	}{
		{"no server", "redis://" + nobody, 69, "refused"},
		{"no host", "redis://no-such-host.invalid", 69, "no-such-host.invalid"},
		{"wrong password", "redis://:wrong-secret@" + secured.Addr(), 69, "WRONGPASS"},
		{"no password", "redis://" + secured.Addr(), 69, "NOAUTH"},
		{"old version", old.URL(), 69, "6.2"},
		{"replica", replica.URL(), 69, "replica"},
		{"out of memory", full.URL(), 69, "memory"},
		{"unknown parameter", master.URL() + "?speed=high", 64, "speed"},
		{"TTL too small", master.URL() + "?ttl=1ms", 64, "TTL"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := output(t, tt.url, "run", "a", "--", "echo", "no")
			require.Equal(t, tt.code, code, stderr)
			require.Empty(t, stdout)
			require.Regexp(t, `^lockport: [^\n]+\n$`, stderr)
			require.Contains(t, stderr, tt.line)
			require.NotContains(t, stderr, "secret")
		})
	}
}

func TestRedisFrozenServer(t *testing.T) {
	t.Parallel()
	server := servers.NeedRedis(t, servers.RedisOptions{Own: true})
	require.NoError(t, server.Freeze())
	p := start(t, server.URL(), "run", "a", "--", "echo", "no")
	require.Equal(t, 69, p.code(t), p.err.String())
	require.Regexp(t, `^lockport: [^\n]+\n$`, p.err.String())

	p = start(t, server.URL(), "run", "a", "--", "echo", "no")
	eventually(t, func() bool { return len(openFiles(p.Process.Pid, "socket:")) > 0 }, "it never connects")
	require.NoError(t, p.Process.Signal(syscall.SIGINT))
	require.Equal(t, 130, p.code(t))
}

func TestRedisEnvironmentToken(t *testing.T) {
	t.Parallel()
	server := servers.NeedRedis(t, servers.RedisOptions{})
	code, stdout, stderr := output(t, server.URL(), "run", "environment", "--", "sh", "-c", `echo "$LOCKPORT_BACKEND"; echo token=$LOCKPORT_TOKEN`)
	require.Equal(t, 0, code, stderr)
	require.Regexp(t, `^redis\ntoken=[1-9][0-9]+\n$`, stdout)
}

// TestRedisSignalWhileWaiting: nothing of a waiter is left on the server.
func TestRedisSignalWhileWaiting(t *testing.T) {
	t.Parallel()
	server := servers.NeedRedis(t, servers.RedisOptions{Own: true})
	holder := start(t, server.URL(), "run", "wait", "--", "sh", "-c", "echo ready; sleep 1000")
	holder.says(t, "ready")
	before := keys(t, server)
	waiter := start(t, server.URL(), "run", "wait", "--", "echo", "no")
	eventually(t, func() bool { return len(keys(t, server)) > len(before) }, "it leaves no trace while it waits: %v", before)
	require.NoError(t, waiter.Process.Signal(syscall.SIGINT))
	require.Equal(t, 130, waiter.code(t))
	require.ElementsMatch(t, before, keys(t, server))
}

func keys(t *testing.T, server *servers.Redis) []any {
	t.Helper()
	reply, err := server.Do(t.Context(), "KEYS", "*")
	require.NoError(t, err)
	return reply.([]any)
}

func TestRedisCounter(t *testing.T) {
	t.Parallel()
	countUnder(t, servers.NeedRedis(t, servers.RedisOptions{}).URL(), 8, 200)
}

// pythonCounter increments the counter as redis-py's own Lock protects it, on the same key.
const pythonCounter = `
import sys, redis
host, port, key, file, each = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5])
client = redis.Redis(host=host, port=port)
for i in range(each):
    with client.lock(key, timeout=30, sleep=0.002):
        try:
            n = int(open(file).read() or "0")
        except FileNotFoundError:
            n = 0
        with open(file, "w") as f:
            f.write(str(n + 1))
`

// TestRedisCounterWithPython shares the lock with Python's standard client of Redis.
func TestRedisCounterWithPython(t *testing.T) {
	t.Parallel()
	server := servers.NeedRedis(t, servers.RedisOptions{})
	python := servers.NeedPythonRedis(t)
	host, port, err := net.SplitHostPort(server.Addr())
	require.NoError(t, err)
	const each, own, theirs = 100, 4, 4
	file := filepath.Join(t.TempDir(), "counter")
	var all sync.WaitGroup
	for range theirs {
		all.Go(func() {
			out, err := exec.Command(python, "-c", pythonCounter, host, port, "lockport:mixed", file, strconv.Itoa(each)).CombinedOutput()
			if err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	for range own {
		all.Go(func() {
			for range each {
				p := prepare(server.URL(), append([]string{"run", "mixed", "--"}, helper("increment", file)...)...)
				if err := p.Run(); err != nil {
					t.Errorf("%v: %s%s", err, p.out.String(), p.err.String())
					return
				}
			}
		})
	}
	all.Wait()
	require.Equal(t, each*(own+theirs), counted(t, file))
}

func TestRedisConform(t *testing.T) {
	t.Parallel()
	server := servers.NeedRedis(t, servers.RedisOptions{})
	code, stdout, stderr := output(t, server.URL(), "conform", "--run", "^contract/")
	require.Equal(t, 0, code, stdout+stderr)
	require.NotContains(t, strings.ReplaceAll(stdout, "needs Faults.Re", ""), "needs Faults.Sever", "the proxy produces it")
}
