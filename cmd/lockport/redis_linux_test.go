package main

import (
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/servers"
)

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

// TestRedisFrozenServer: a signal ends the wait for a server that does not answer.
func TestRedisFrozenServer(t *testing.T) {
	t.Parallel()
	server := servers.NeedRedis(t, servers.RedisOptions{Own: true})
	require.NoError(t, server.Freeze())
	p := start(t, server.URL(), "run", "a", "--", "echo", "no")
	eventually(t, func() bool { return len(openFiles(p.Process.Pid, "socket:")) > 0 }, "it never connects")
	require.NoError(t, p.Process.Signal(syscall.SIGINT))
	require.Equal(t, 130, p.code(t))
}

// TestRedisSignalWhileWaiting: nothing of a waiter is left on the server.
func TestRedisSignalWhileWaiting(t *testing.T) {
	t.Parallel()
	server := servers.NeedRedis(t, servers.RedisOptions{Own: true})
	holds(t, server.URL(), "wait")
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
	const each, own, theirs = 50, 2, 2
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
				p := prepare(server.URL(), "run", "mixed", "--", "sh", "-c", increment, file)
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
