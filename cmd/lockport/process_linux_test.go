package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/peer"
)

func TestRunSignalWhileWaiting(t *testing.T) {
	t.Parallel()
	url := folder(t)
	holder := holds(t, url, "a")
	for s, want := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143, syscall.SIGHUP: 129} {
		waiter := start(t, url, "run", "a", "--", "echo", "no")
		// lockport catches the signals before it opens the lock file.
		eventually(t, func() bool { return len(openFiles(waiter.Process.Pid, "/a")) > 0 }, "%v never waits", waiter.Args)
		waiter.ends(t, s, want)
		require.Empty(t, waiter.out.String()+waiter.err.String())
	}
	require.False(t, holder.ended())
}

// openFiles lists what the process has open whose name contains part.
func openFiles(pid int, part string) []string {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, _ := os.ReadDir(dir)
	var found []string
	for _, e := range entries {
		if target, err := os.Readlink(dir + "/" + e.Name()); err == nil && strings.Contains(target, part) {
			found = append(found, e.Name()+" -> "+target)
		}
	}
	return found
}

// processesWith returns the ids and command lines of the processes whose file in /proc contains text.
func processesWith(file, text string) map[int]string {
	found := make(map[int]string)
	all, _ := filepath.Glob("/proc/[0-9]*/" + file)
	for _, path := range all {
		content, _ := os.ReadFile(path)
		if strings.Contains(string(content), text) {
			line, _ := os.ReadFile(filepath.Dir(path) + "/cmdline")
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			found[pid] = strings.ReplaceAll(string(line), "\x00", " ")
		}
	}
	return found
}

// guardOf is the process id of the guard of group, 0 if there is none.
func guardOf(group int) int {
	for pid := range processesWith("cmdline", "lock-guard\x00"+verbGuard+"\x00"+strconv.Itoa(group)+"\x00") {
		return pid
	}
	return 0
}

func awaitGuard(t *testing.T, group int) (guard int) {
	t.Helper()
	eventually(t, func() bool { guard = guardOf(group); return guard != 0 }, "no guard")
	return guard
}

// family is a command with a child and a grandchild in one group, which ignore all signals they can. It writes its group and waits forever.
const family = `trap "" TERM INT HUP; (sh -c 'sleep 1000 & sleep 1000') & echo group=$$; sleep 1000`

// TestRunKilledKeepsTheFileLockUntilTheGroupIsGone stops the guard first, so that the group outlives lockport. SIGTERM does not end the guard.
func TestRunKilledKeepsTheFileLockUntilTheGroupIsGone(t *testing.T) {
	for _, tt := range []struct{ held, excluded []string }{
		{[]string{"a"}, []string{"a"}},
		{[]string{"--shared", "a"}, []string{"a"}},
		{[]string{"--permits=1", "a"}, []string{"--permits=1", "a"}},
		{[]string{"a", "b"}, []string{"b"}},
	} {
		t.Run(strings.Join(tt.held, " "), func(t *testing.T) {
			t.Parallel()
			url := folder(t)
			run := func(lock []string, command ...string) []string {
				return slices.Concat([]string{"run", "-w20s"}, lock, []string{"--"}, command)
			}
			p := start(t, url, run(tt.held, "sh", "-c", family)...)
			group := p.group(t)
			guard := awaitGuard(t, group)
			eventually(t, func() bool { return ignores(guard, syscall.SIGTERM) }, "SIGTERM would end it")
			for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGSTOP} {
				require.NoError(t, syscall.Kill(guard, s))
			}
			t.Cleanup(func() { _ = syscall.Kill(guard, syscall.SIGCONT) })
			eventually(t, func() bool { return state(guard) == "T" }, "the guard does not stop")
			p.ends(t, syscall.SIGKILL, -1)
			require.True(t, groupAlive(group), "only the direct child has the parent-death signal")
			ran(t, 75, url, run(append([]string{"-w300ms"}, tt.excluded...), "true")...)
			require.NoError(t, syscall.Kill(guard, syscall.SIGCONT))
			ran(t, 0, url, run(tt.excluded, "true")...)
			require.False(t, groupAlive(group), "the lock is free before the group is gone")
			eventually(t, func() bool { return guardOf(group) == 0 }, "the guard lives on")
		})
	}
}

// ignores reports whether the process ignores s.
func ignores(pid int, s syscall.Signal) bool {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(text), "SigIgn:\t")
	mask, _ := strconv.ParseUint(strings.SplitN(rest, "\n", 2)[0], 16, 64)
	return mask&(1<<(s-1)) != 0
}

// TestRunDescriptors: the command inherits the descriptors that were open before, and none of lockport's. With the pipe to the guard, it would keep
// the guard from seeing lockport die. It runs alone: a command that starts in this process lends its descriptors to others for a moment.
func TestRunDescriptors(t *testing.T) {
	extra := peer.Must(os.Open("/dev/zero"))(t)
	defer extra.Close()
	script := `for fd in /proc/$$/fd/*; do echo "$(basename $fd) $(readlink $fd)"; done; echo group=$$; cat`
	plain := exec.Command("sh", "-c", script)
	plain.ExtraFiles = []*os.File{extra}
	expected := peer.Must(plain.Output())(t)

	p := prepare(folder(t), "run", "a", "--", "sh", "-c", script)
	stdin := peer.Must(p.StdinPipe())(t)
	p.ExtraFiles = []*os.File{extra}
	p.begin(t)
	group := p.group(t)
	require.Contains(t, p.out.String(), "3 /dev/zero\n")
	numbers := regexp.MustCompile(`(?m)^\d+`)
	require.Equal(t, numbers.FindAllString(string(expected), -1), numbers.FindAllString(p.out.String(), -1))
	// The guard has only the pipe and the lock.
	guard := awaitGuard(t, group)
	require.Len(t, openFiles(guard, "/a"), 1, openFiles(guard, ""))
	require.False(t, ignores(group, syscall.SIGTTOU) || ignores(group, syscall.SIGPIPE), "the command inherits an ignored signal")
	require.NoError(t, stdin.Close())
	require.Equal(t, 0, p.code(t))
}

// TestRunLeavesTheBackgroundAlone: a command that ends normally may leave processes running.
func TestRunLeavesTheBackgroundAlone(t *testing.T) {
	t.Parallel()
	url := folder(t)
	p := start(t, url, "run", "a", "--", "sh", "-c", `sleep 1000 >/dev/null 2>&1 & echo left=$!; echo group=$$`)
	require.Equal(t, 0, p.code(t))
	left, group := p.number(t, "left"), p.group(t)
	eventually(t, func() bool { return guardOf(group) == 0 }, "the guard lives on")
	require.Contains(t, []string{"S", "R", "D"}, state(left), "it was killed")
	ran(t, 0, url, "run", "-n", "a", "--", "true")
	require.NoError(t, syscall.Kill(left, syscall.SIGKILL))
}

func TestGroupAliveCountsNoZombies(t *testing.T) {
	line := func(state string, threads int) []byte {
		return fmt.Appendf(nil, "77 (a) b) (c) %s 1 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 %d 0 100", state, threads)
	}
	require.True(t, runsInGroup(line("S", 1), 42))
	require.True(t, runsInGroup(line("T", 1), 42))
	require.True(t, runsInGroup(line("Z", 2), 42), "its leader ended, another thread did not")
	require.False(t, runsInGroup(line("Z", 1), 42))
	require.False(t, runsInGroup(line("S", 1), 43))
	require.False(t, runsInGroup([]byte("77 (a)"), 42))
}
