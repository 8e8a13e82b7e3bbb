package main

import (
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
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

// testShortSilence: an outage that a renewal survives is nobody's business.
func testShortSilence(t *testing.T, url string) {
	through, proxies := proxied(t, url)
	p := start(t, through, "run", "--ttl", "6s", "hiccup", "--", "sh", "-c",
		`trap 'echo asked' TERM; echo ready; while :; do sleep 0.01; done`)
	p.says(t, "ready")
	eventually(t, func() bool { return left(t, "lockport:hiccup") < 5*time.Second }, "not held")
	proxies[0].KillConns()
	eventually(t, func() bool { return left(t, "lockport:hiccup") > 5*time.Second }, "not renewed")
	require.NoError(t, p.Process.Signal(syscall.SIGHUP))
	require.Equal(t, 129, p.code(t))
	require.Empty(t, p.err.String())
}

// testRemovalThatOnlyTheReleaseFinds: the command succeeded, and its lock was gone meanwhile.
func testRemovalThatOnlyTheReleaseFinds(t *testing.T, url string) {
	cli := servers.NeedProgram(t, "redis-cli", "redis")
	host, port, err := net.SplitHostPort(servers.SharedRedis(t).Addr())
	require.NoError(t, err)
	_, stderr := ran(t, 79, url, "run", "--ttl", "60s", "late", "--", cli, "-h", host, "-p", port, "DEL", "lockport:late")
	require.Regexp(t, `^lockport: [^\n]*lost[^\n]*\n$`, stderr)
}

// testSignalWhileWaiting: nothing of a waiter is left on the server.
func testSignalWhileWaiting(t *testing.T, url string) {
	holds(t, url, "wait")
	before := keys(t, "wait")
	waiter := start(t, url, "run", "wait", "--", "echo", "no")
	eventually(t, func() bool { return len(keys(t, "wait")) > len(before) }, "it leaves no trace while it waits: %v", before)
	require.NoError(t, waiter.Process.Signal(syscall.SIGINT))
	require.Equal(t, 130, waiter.code(t))
	require.ElementsMatch(t, before, keys(t, "wait"))
}

// keys are those with a part in their names.
func keys(t *testing.T, part string) []any {
	t.Helper()
	reply, err := servers.SharedRedis(t).Do(t.Context(), "KEYS", "*"+part+"*")
	require.NoError(t, err)
	return reply.([]any)
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

// testCounterWithPython shares the lock with Python's standard client of Redis.
func testCounterWithPython(t *testing.T, url string) {
	python := servers.NeedPythonRedis(t)
	host, port, err := net.SplitHostPort(servers.SharedRedis(t).Addr())
	require.NoError(t, err)
	const each, own, theirs = 20, 2, 2
	file := filepath.Join(t.TempDir(), "counter")
	var all sync.WaitGroup
	for range theirs {
		all.Go(func() {
			out, err := exec.Command(python, "-c", pythonCounter, host, port, "lockport:counter", file, strconv.Itoa(each)).CombinedOutput()
			if err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	incrementUnder(t, url, file, own, each)
	all.Wait()
	require.Equal(t, each*(own+theirs), counted(t, file))
}
