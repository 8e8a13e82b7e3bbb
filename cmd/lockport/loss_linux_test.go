package main

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRunGuardActsWhereLockportCannot stops lockport, so that it neither renews nor ends its command. The memory
// backend does for that: its validity is as that of any backend with a TTL. The guard acts a fortieth of the TTL before its end, which a busy machine needs.
func TestRunGuardActsWhereLockportCannot(t *testing.T) {
	t.Parallel()
	const ttl = 8 * time.Second
	p := start(t, "memory:?ttl="+ttl.String(), "run", "a", "--", "sh", "-c", family)
	group := p.group(t)
	stopped := time.Now()
	require.NoError(t, p.Process.Signal(syscall.SIGSTOP))
	awaitState(t, p.Process.Pid, "T")
	eventually(t, func() bool { return !groupAlive(group) }, "group %d lives on", group)
	require.Less(t, time.Since(stopped), ttl, "somebody else could have had the lock while the command ran")
	require.NoError(t, p.Process.Signal(syscall.SIGCONT))
	require.Equal(t, 79, p.code(t))
	require.Regexp(t, `^lockport: [^\n]+\n$`, p.err.String())
}

// TestRunGuardThatReadsLate: the guard is told of renewals when they are over for long, as on a machine with no time for it. It kills the group of a lock
// that was renewed no sooner, and that of a lock that was not no later.
func TestRunGuardThatReadsLate(t *testing.T) {
	t.Parallel()
	const ttl = 4 * time.Second
	p := start(t, "memory:?ttl="+ttl.String(), "run", "a", "--", "sh", "-c", family)
	group := p.group(t)
	guard := awaitGuard(t, group)
	require.NoError(t, syscall.Kill(guard, syscall.SIGSTOP))
	time.Sleep(ttl * 3 / 2)
	require.NoError(t, syscall.Kill(guard, syscall.SIGCONT))
	time.Sleep(ttl / 10)
	require.True(t, groupAlive(group), "the lock was renewed")
	require.NoError(t, syscall.Kill(guard, syscall.SIGSTOP))
	time.Sleep(ttl / 2) // a renewal, at least
	require.NoError(t, p.Process.Signal(syscall.SIGSTOP))
	stopped := time.Now()
	time.Sleep(ttl / 2)
	require.NoError(t, syscall.Kill(guard, syscall.SIGCONT))
	eventually(t, func() bool { return !groupAlive(group) }, "group %d lives on", group)
	require.Less(t, time.Since(stopped), ttl, "somebody else could have had the lock while the command ran")
	require.NoError(t, p.Process.Signal(syscall.SIGCONT))
	require.Equal(t, 79, p.code(t))
}

func TestRunOnLostIgnore(t *testing.T) {
	t.Parallel()
	const ttl = time.Second
	p := start(t, "memory:", "run", "--ttl", ttl.String(), "--on-lost", "ignore", "a", "--", "sh", "-c", `echo group=$$; while sleep 0.01; do :; done`)
	group := p.group(t)
	stopped := time.Now()
	require.NoError(t, p.Process.Signal(syscall.SIGSTOP))
	eventually(t, func() bool { return time.Since(stopped) > ttl }, "time stands still")
	require.True(t, groupAlive(group))
	require.NoError(t, p.Process.Signal(syscall.SIGCONT))
	eventually(t, func() bool { return p.err.String() != "" }, "the loss was not said")
	require.Regexp(t, `^lockport: .*the command continues, because of --on-lost ignore\n$`, p.err.String())
	require.True(t, groupAlive(group))
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 79, p.code(t))
}

// TestTerminalStopKeyAndTTL: a job that was stopped by Ctrl-Z cannot renew its lock, so its command is killed in time.
func TestTerminalStopKeyAndTTL(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	shell := onTerminal(t, "memory:?ttl="+ttl.String(), "sh", "-mc",
		`"$0" run a -- sh -c 'echo group=$$; echo inside=1; read line'; echo stopped=$?; read line; fg; echo code=$?`, program())
	shell.number(t, "inside")
	group := shell.group(t)
	shell.types(t, "\x1a")
	shell.says(t, `lockport: stopped; unless continued within `)
	require.Equal(t, 128+int(syscall.SIGTSTP), shell.number(t, "stopped"))
	eventually(t, func() bool { return !groupAlive(group) }, "group %d lives on", group)
	shell.types(t, "now\n")
	require.Equal(t, 79, shell.number(t, "code"))
}

func awaitState(t *testing.T, pid int, want string) {
	t.Helper()
	eventually(t, func() bool { return state(pid) == want }, "%d is %q, not %q", pid, state(pid), want)
}
