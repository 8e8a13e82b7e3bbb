package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/memory/memorytest"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/leader"
)

// ticks is a file to which commands append their process ids again and again, from a child that survives if only the command is killed.
type ticks struct{ file string }

// tick writes to the file $0. Its end on SIGTERM has the status 5.
const tick = `trap "exit 5" TERM; trap "echo hangup" HUP; (trap "" TERM; while :; do echo $$ >>"$0"; sleep 0.01; done) & while :; do wait; done`

func newTicks(t *testing.T) ticks { return ticks{filepath.Join(t.TempDir(), "ticks")} }

// keep starts a lockport that keeps tick running.
func (k ticks) keep(t *testing.T, url string, options ...string) *process {
	return start(t, url, slices.Concat([]string{"run", "--keep"}, options, []string{"keep", "--", "sh", "-c", tick, k.file})...)
}

// pids returns the processes that ran, in order.
func (k ticks) pids() []string {
	text, _ := os.ReadFile(k.file)
	return slices.Compact(strings.Fields(string(text)))
}

// next waits for the nth process.
func (k ticks) next(t *testing.T, n int) (pid int) {
	t.Helper()
	eventually(t, func() bool { return len(k.pids()) == n }, "%d processes ran, not %d", len(k.pids()), n)
	pid, _ = strconv.Atoi(k.pids()[n-1])
	t.Cleanup(func() { _ = signalGroup(pid, syscall.SIGKILL) })
	return pid
}

// testKeep: one of several lockports runs the command, whatever ends. A process id that comes back after another shows that both ran at once.
func testKeep(t *testing.T, url string) {
	k, options := newTicks(t), []string{"--ttl", "3s", "--kill-after", "100ms"}
	var all []*process
	leader := func(pid int) *process {
		t.Helper()
		i := slices.IndexFunc(all, func(p *process) bool { return strconv.Itoa(p.Process.Pid) == append(stat(pid), "", "")[1] })
		require.GreaterOrEqual(t, i, 0)
		return all[i]
	}
	for range 4 {
		all = append(all, k.keep(t, url, options...))
	}
	pid := k.next(t, 1)

	first := leader(pid)
	require.NoError(t, first.Process.Signal(syscall.SIGHUP)) // which does not kill the command
	first.says(t, "hangup")
	for _, p := range all {
		for _, s := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGHUP} {
			if p != first { // it waits, once it is connected
				eventually(t, func() bool { return len(openFiles(p.Process.Pid, "socket:")) > 0 }, "it never connects")
				require.NoError(t, p.Process.Signal(s))
			}
		}
	}
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	pid = k.next(t, 2)

	killed := leader(pid)
	require.NoError(t, killed.Process.Kill())
	pid = k.next(t, 3)

	stopped := leader(pid)
	require.NoError(t, stopped.Process.Signal(syscall.SIGSTOP))
	pid = k.next(t, 4)
	_ = stopped.Process.Signal(syscall.SIGCONT)

	asked := leader(pid)
	asked.ends(t, syscall.SIGTERM, 5)
	pid = k.next(t, 5)

	pids := k.pids()
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(pids))), len(pids), "two ran at one time: %v", pids)
	require.Contains(t, first.err.String(), "the command ended with status 137; retrying \"keep\" in ")
	leads := leader(pid)
	for _, p := range all {
		if p != asked && p != killed && p != leads {
			require.False(t, p.ended())
			p.ends(t, syscall.SIGTERM, 143) // it waited
		}
	}
	leads.ends(t, syscall.SIGTERM, 5)
	require.False(t, groupAlive(pid))
}

// The lock is kept for --min-hold after the command, by --keep in each term. One signal ends lockport then.
func TestRunMinHold(t *testing.T) {
	t.Parallel()
	for code, options := range map[int][]string{4: nil, 143: {"--keep"}} {
		url := folder(t)
		p := start(t, url, slices.Concat([]string{"run"}, options, []string{"--min-hold", "1h", "a", "--", "sh", "-c", "echo group=$$; exit 4"})...)
		group := p.group(t)
		eventually(t, func() bool { return guardOf(group) == 0 }, "the command does not end")
		ran(t, 75, url, "run", "-n", "a", "--", "true")
		p.ends(t, syscall.SIGTERM, code)
		ran(t, 0, url, "run", "-n", "a", "--", "true")
	}
}

// The loss of a lock after the command, during --min-hold, is said, but does not change the exit code. A removal before does, even if only the release finds it.
func TestRunKeepLostInMinHold(t *testing.T) {
	t.Parallel()
	url := folder(t)
	p := start(t, url, "run", "--keep", "--min-hold", "1h", "a", "--", "sh", "-c", "echo group=$$; exec sleep 3600")
	group := p.group(t)
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	eventually(t, func() bool { return guardOf(group) == 0 }, "the command does not end")
	require.NoError(t, os.RemoveAll(strings.TrimPrefix(url, "file://")))
	require.Equal(t, 143, p.code(t), p.err.String())
	require.Contains(t, p.err.String(), "was removed")

	url = folder(t)
	_, stderr := ran(t, 79, url, "run", "--keep", "a", "--", "sh", "-c", `trap : TERM; rm -r "$0"; kill $PPID; sleep 0.3; sleep 0.3`, strings.TrimPrefix(url, "file://"))
	require.Contains(t, stderr, "was removed")

	url = folder(t)
	p = prepare(url, "run", "a", "--", "rm", "-r", strings.TrimPrefix(url, "file://"))
	p.Stderr = nil
	require.NoError(t, peer.Must(p.StderrPipe())(t).Close())
	require.Equal(t, 79, p.begin(t).code(t), "a message that cannot be written ends lockport")
}

// A command that dies of a signal that lockport did not get is begun again. One that ends when it is asked to, or of a signal passed on, is not.
func TestRunKeep(t *testing.T) {
	t.Parallel()
	for s, code := range map[syscall.Signal]int{syscall.SIGINT: 5, syscall.SIGQUIT: 5, syscall.SIGUSR1: 138} {
		p := start(t, folder(t), "run", "--keep", "a", "--", "sh", "-c", `if mkdir "$0"; then kill -HUP $$; fi
			trap "exit 5" INT QUIT; echo ready; while :; do sleep 0.01; done`, filepath.Join(t.TempDir(), "began"))
		p.says(t, "ready")
		require.Regexp(t, `(?m)^lockport: the command ended with status 129; retrying "a" in [0-9.]+m?s$`, p.err.String())
		p.ends(t, s, code)
	}
}

// Where no process can be started for now, as without memory or descriptors, lockport tries again. Here the arguments are too long.
func TestRunKeepRetriesAStart(t *testing.T) {
	t.Parallel()
	var said buffer
	o := runOptions{url: folder(t), names: []string{"a"}, command: []string{"sh", strings.Repeat("x", 1<<20)}, ttl: time.Minute, keep: true}
	r := &runner{c: &console{err: &said}, o: o, signals: make(chan os.Signal, 1)}
	defer r.close()
	ended := make(chan error, 1)
	go func() { ended <- r.keep(t.Context()) }()
	eventually(t, func() bool {
		return strings.Contains(said.String(), "list too long; retrying \"a\" in ") || len(ended) > 0
	}, "%s", &said)
	r.signals <- syscall.SIGTERM
	require.Equal(t, exitWith(143), <-ended)
}

// A silent server is named as the reason why the command ended, not the status of lockport.
func TestRunKeepSaysSilence(t *testing.T) {
	b, said := memorytest.NewBackend(nil, nil), new(buffer)
	o := runOptions{names: []string{"a"}, command: []string{"sleep", "20"}, ttl: 2 * time.Second, killAfter: time.Second, keep: true}
	r := &runner{c: &console{err: said}, o: o, path: "/bin/sleep", signals: make(chan os.Signal, 1), client: peer.Client(t, b, lockport.TTL(o.ttl))}
	k := &keeper{runner: r, stopListening: func() {}}
	term := peer.Holds(t, r.client, "a")
	b.Pause()
	defer b.Resume()
	err := k.lead(t.Context(), term)
	k.stopListening()
	require.ErrorIs(t, err, lockport.ErrSilence)
	k.observe(leader.Change{State: leader.Idle, Pause: time.Second, Err: errors.Join(os.ErrClosed, err)})
	require.Contains(t, said.String(), "lockport: file already closed; no renewal was confirmed in time; retrying \"a\" in 1s\n")
	require.Equal(t, 4, r.afterRelease(lockport.ErrUnavailable, 4, true))
	require.Contains(t, said.String(), "unavailable; the lock expires within 2s\n")
}
