//go:build linux || darwin

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRunPassesTheExitCodeOn(t *testing.T) {
	t.Parallel()
	url := folder(t)
	for _, tt := range []struct {
		script string
		want   int
	}{
		{"exit 0", 0}, {"exit 1", 1}, {"exit 3", 3}, {"exit 75", 75}, {"exit 79", 79}, {"exit 255", 255},
		{"kill -TERM $$", 128 + 15}, {"kill -KILL $$", 128 + 9}, {"kill -SEGV $$", 128 + 11},
	} {
		code, _, stderr := output(t, url, "run", "a", "--", "sh", "-c", tt.script)
		require.Equal(t, tt.want, code, "%s: %s", tt.script, stderr)
		require.Empty(t, stderr, tt.script)
	}
}

func TestRunReadsStandardInputAndWritesStandardOutput(t *testing.T) {
	t.Parallel()
	p := prepare(folder(t), "run", "a", "--", "sh", "-c", "cat; echo warning >&2")
	p.Stdin = strings.NewReader("one\ntwo\n")
	p.begin(t)
	require.Equal(t, 0, p.code(t))
	require.Equal(t, "one\ntwo\n", p.out.String())
	require.Equal(t, "warning\n", p.err.String())
}

// Root does not run what anybody may have put into the current folder.
func TestCommandInTheCurrentFolder(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "report"), []byte("#!/bin/sh\n"), 0o700))
	t.Chdir(dir)
	for _, path := range []string{".", ":/bin", "/bin:."} {
		t.Setenv("PATH", path)
		found, err := findCommand("report")
		if os.Geteuid() == 0 {
			require.ErrorContains(t, err, "command not found: report (for root, ", "PATH=%s", path)
			require.Equal(t, exitNotFound, err.(*exitError).code)
		} else {
			require.NoError(t, err, "PATH=%s", path)
			require.NotEmpty(t, found)
		}
	}
	_, err := findCommand("./report")
	require.NoError(t, err)
}

func TestRunCommandWithoutInterpreterLine(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "script")
	require.NoError(t, os.WriteFile(script, []byte("echo \"ran with $1\"\n"), 0o700))
	stdout, _ := ran(t, 0, folder(t), "run", "a", "--", script, "this")
	require.Equal(t, "ran with this\n", stdout)
}

func TestRunHeld(t *testing.T) {
	t.Parallel()
	url := folder(t)
	holder := holds(t, url, "a")

	_, stderr := ran(t, 75, url, "run", "-n", "a", "--", "echo", "no")
	require.Regexp(t, `^lockport: "a" is held by \S+/`+strconv.Itoa(holder.Process.Pid)+`/.*\n$`, stderr)

	begun := time.Now()
	stdout, stderr := ran(t, 75, url, "run", "-w", "300ms", "a", "--", "echo", "no")
	require.Contains(t, stderr, `waited 300ms for "a"`)
	require.Empty(t, stdout)
	require.GreaterOrEqual(t, time.Since(begun), 300*time.Millisecond)

	ran(t, 75, url, "run", "-w0s", "a", "--", "echo", "no")

	stdout, _ = ran(t, 0, url, "run", "-n", "b", "--", "echo", "another name")
	require.Equal(t, "another name\n", stdout)

	waiter := start(t, url, "run", "a", "--", "echo", "at last")
	require.NoError(t, holder.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 128+15, holder.code(t))
	require.Equal(t, 0, waiter.code(t))
	require.Equal(t, "at last\n", waiter.out.String())
}

func TestRunPassesSignalsOn(t *testing.T) {
	t.Parallel()
	p := start(t, folder(t), "run", "a", "--", "sh", "-c",
		`for s in INT HUP QUIT USR1 USR2 WINCH CONT; do trap "echo got $s" $s; done; trap "exit 5" TERM; echo ready; while :; do sleep 0.01; done`)
	p.says(t, "ready")
	for name, s := range map[string]syscall.Signal{"INT": syscall.SIGINT, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT, "USR1": syscall.SIGUSR1,
		"USR2": syscall.SIGUSR2, "WINCH": syscall.SIGWINCH, "CONT": syscall.SIGCONT} {
		require.NoError(t, p.Process.Signal(s))
		p.says(t, "got "+name+"\n")
	}
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 5, p.code(t))
}

func TestRunLeavesIgnoredSignalsIgnored(t *testing.T) {
	t.Parallel()
	p := prepare(folder(t))
	p.Cmd = exec.Command("sh", "-c", `trap "" HUP; exec "$0" run a -- sh -c 'echo ready; read line; echo "$line"'`, binary())
	p.Env = append(without(os.Environ(), "LOCKPORT_URL"), "LOCKPORT_URL="+folder(t))
	p.Stdout, p.Stderr = &p.out, &p.err
	stdin, err := p.StdinPipe()
	require.NoError(t, err)
	p.begin(t)
	p.says(t, "ready")
	require.NoError(t, p.Process.Signal(syscall.SIGHUP))
	_, err = stdin.Write([]byte("alive\n"))
	require.NoError(t, err)
	require.Equal(t, 0, p.code(t))
	require.Contains(t, p.out.String(), "alive")
}

func TestRunEnvironment(t *testing.T) {
	t.Parallel()
	url := folder(t)
	names := []string{"LOCKPORT_NAME", "LOCKPORT_OWNER", "LOCKPORT_BACKEND", "LOCKPORT_TOKEN"}
	run := func(url string) map[string]string {
		p := prepare(url, "run", "nightly report", "--", "env")
		for _, name := range names {
			p.Env = append(p.Env, name+"=stale")
		}
		p.begin(t)
		require.Equal(t, 0, p.code(t), p.err.String())
		found := map[string]string{}
		for line := range strings.Lines(p.out.String()) {
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			require.NotContains(t, found, name, "set twice")
			found[name] = value
		}
		return found
	}
	first := run(url)
	require.Equal(t, "nightly report", first["LOCKPORT_NAME"])
	require.Equal(t, "file", first["LOCKPORT_BACKEND"])
	require.Regexp(t, `^[0-9a-f]{32}:`, first["LOCKPORT_OWNER"])
	require.Equal(t, url, first["LOCKPORT_URL"])
	second := run(url)
	require.NotEqual(t, first["LOCKPORT_OWNER"], second["LOCKPORT_OWNER"])
	before, err := strconv.Atoi(first["LOCKPORT_TOKEN"])
	require.NoError(t, err)
	after, err := strconv.Atoi(second["LOCKPORT_TOKEN"])
	require.NoError(t, err)
	require.Greater(t, after, before)
}

func TestRunMinHold(t *testing.T) {
	t.Parallel()
	url := folder(t)
	begun := time.Now()
	first := start(t, url, "run", "--min-hold", "700ms", "a", "--", "echo", "done")
	first.says(t, "done")
	code, _, _ := output(t, url, "run", "-n", "a", "--", "true")
	held := time.Since(begun) < 700*time.Millisecond // or else this machine is too slow to see anything
	if held {
		require.Equal(t, 75, code)
	}
	require.Equal(t, 0, first.code(t))
	require.GreaterOrEqual(t, time.Since(begun), 700*time.Millisecond)

	second := start(t, url, "run", "--min-hold", "1h", "a", "--", "sh", "-c", "echo done; exit 4")
	second.says(t, "done")
	eventually(t, func() bool {
		_ = second.Process.Signal(syscall.SIGTERM) // to the command, while it lives
		return second.ended()
	}, "a signal does not end --min-hold")
	require.Contains(t, []int{4, 143}, second.code(t))
}

// TestRunCounter lets many processes increment a counter under the lock. Without it, most increments are lost.
func TestRunCounter(t *testing.T) {
	t.Parallel()
	processes, each := 8, 15
	if testing.Short() {
		processes, each = 4, 10
	}
	countUnder(t, folder(t), processes, each)
}

// increment adds one to the number in the file $0, as unsafely as can be.
const increment = `n=0; [ ! -e "$0" ] || read n <"$0"; echo $((n+1)) >"$0"`

// countUnder runs `each` commands in each of several goroutines and checks that no increment was lost.
func countUnder(t *testing.T, url string, processes, each int) {
	file := filepath.Join(t.TempDir(), "counter")
	begun := time.Now()
	var all sync.WaitGroup
	for range processes {
		all.Go(func() {
			for range each {
				p := prepare(url, "run", "counter", "--", "sh", "-c", increment, file)
				if err := p.Run(); err != nil {
					t.Errorf("%v: %s%s", err, p.out.String(), p.err.String())
					return
				}
			}
		})
	}
	all.Wait()
	require.Equal(t, processes*each, counted(t, file))
	t.Logf("%d runs in %v", processes*each, time.Since(begun).Round(time.Millisecond))
}
