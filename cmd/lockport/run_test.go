//go:build linux || darwin

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/peer"
)

// TestRunIsTransparent: the command's arguments, streams and exit code are the same as without lockport.
func TestRunIsTransparent(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "script") // without an interpreter line
	require.NoError(t, os.WriteFile(script, []byte("echo \"ran with $1\"\n"), 0o700))
	for _, tt := range []struct {
		command               []string
		code                  int
		stdin, stdout, stderr string
	}{
		{command: []string{"sh", "-c", "exit 0"}},
		{command: []string{"sh", "-c", "exit 75"}, code: 75},
		{command: []string{"sh", "-c", "exit 255"}, code: 255},
		{command: []string{"sh", "-c", "kill -TERM $$"}, code: 128 + 15},
		{command: []string{"sh", "-c", "kill -KILL $$"}, code: 128 + 9},
		{command: []string{"sh", "-c", "cat; echo warning >&2"}, stdin: "one\ntwo\n", stdout: "one\ntwo\n", stderr: "warning\n"},
		{command: []string{"sh", "-c", `echo "$1"`, "sh", "--help"}, stdout: "--help\n"},
		{command: []string{script, "this"}, stdout: "ran with this\n"},
	} {
		p := prepare(folder(t), append([]string{"run", "a", "--"}, tt.command...)...)
		p.Stdin = strings.NewReader(tt.stdin)
		p.begin(t)
		require.Equal(t, []any{tt.code, tt.stdout, tt.stderr}, []any{p.code(t), p.out.String(), p.err.String()}, "%q", tt.command)
	}
}

// Root does not run a command from the current folder, where another user may have put it.
func TestCommandInTheCurrentFolder(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "report"), []byte("#!/bin/sh\n"), 0o700))
	t.Chdir(dir)
	for _, path := range []string{".", ":/bin", "/bin:."} {
		t.Setenv("PATH", path)
		found, err := findCommand("report")
		if os.Geteuid() == 0 {
			require.ErrorContains(t, err, "command not found: report (root's PATH", "PATH=%s", path)
			require.Equal(t, exitNotFound, err.(*exitError).code)
		} else {
			require.NoError(t, err, "PATH=%s", path)
			require.NotEmpty(t, found)
		}
	}
	require.NoError(t, peer.ErrOf(findCommand("./report")))
}

func TestRunHeld(t *testing.T) {
	t.Parallel()
	url := folder(t)
	holder := holds(t, url, "a")

	_, stderr := ran(t, 75, url, "run", "-n", "A", "a", "--", "echo", "no")
	require.Regexp(t, `^lockport: "a" is held by \S+, pid `+strconv.Itoa(holder.Process.Pid)+`, .*\n$`, stderr)

	begun := time.Now()
	refuses(t, url, 75, `waited 300ms: "a" is held by `, "run", "-w", "300ms", "a", "--", "echo", "no")
	require.GreaterOrEqual(t, time.Since(begun), 300*time.Millisecond)

	ran(t, 75, url, "run", "-w0s", "a", "--", "echo", "no")

	waiter := start(t, url, "run", "a", "--", "echo", "at last")
	holder.ends(t, syscall.SIGTERM, 128+15)
	require.Equal(t, []any{0, "at last\n"}, []any{waiter.code(t), waiter.out.String()})
}

// A holder with the same host name and process id is another client, as in containers that share the host's name.
func TestRunHeldByANamesake(t *testing.T) {
	t.Parallel()
	namesake := peer.Must(openServer(t.Context(), folder(t)))(t)
	defer namesake.Close()
	peer.Holds(t, namesake, "a")
	require.Contains(t, holder(t.Context(), namesake, "a"), ", pid "+strconv.Itoa(os.Getpid())+", ")
}

func TestRunPassesSignalsOn(t *testing.T) {
	t.Parallel()
	p := start(t, folder(t), "run", "a", "--", "sh", "-c",
		`for s in INT HUP QUIT USR1 USR2 ALRM WINCH CONT; do trap "echo got $s" $s; done; trap "exit 5" TERM; echo ready; while :; do sleep 0.01; done`)
	p.says(t, "ready")
	for name, s := range map[string]syscall.Signal{"INT": syscall.SIGINT, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT, "USR1": syscall.SIGUSR1,
		"USR2": syscall.SIGUSR2, "ALRM": syscall.SIGALRM, "WINCH": syscall.SIGWINCH, "CONT": syscall.SIGCONT} {
		require.NoError(t, p.Process.Signal(s))
		p.says(t, "got "+name+"\n")
	}
	p.ends(t, syscall.SIGTERM, 5)
}

func TestRunLeavesIgnoredSignalsIgnored(t *testing.T) {
	t.Parallel()
	p := prepare(folder(t))
	p.Path, p.Args = "/bin/sh", []string{"sh", "-c", `trap "" HUP; exec "$0" run a -- sh -c 'kill -HUP $PPID $$; echo alive'`, program()}
	require.Equal(t, 0, p.begin(t).code(t))
	require.Contains(t, p.out.String(), "alive")
}

// A command's environment has the locks it runs under, but no lock that lockport itself was run under.
func TestRunEnvironment(t *testing.T) {
	t.Parallel()
	url := folder(t)
	run := func(names ...string) map[string]string {
		p := prepare(url, slices.Concat([]string{"run"}, names, []string{"--", "env"})...)
		for _, name := range []string{"NAME", "OWNER", "BACKEND", "TOKEN", "NAME_3"} {
			p.Env = append(p.Env, "LOCKPORT_"+name+"=stale")
		}
		p.begin(t)
		require.Equal(t, 0, p.code(t), p.err.String())
		found := map[string]string{}
		for line := range strings.Lines(p.out.String()) {
			if name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "="); strings.HasPrefix(name, "LOCKPORT_") && !strings.HasPrefix(name, "LOCKPORT_TEST_") {
				require.NotContains(t, found, name, "set twice")
				require.NotEqual(t, "stale", value)
				found[name] = value
			}
		}
		require.Equal(t, "file", found["LOCKPORT_BACKEND"])
		require.Equal(t, url, found["LOCKPORT_URL"])
		return found
	}
	first, second, both := run("nightly report"), run("nightly report"), run("z", "nightly report")
	require.Len(t, first, 5)
	require.Equal(t, "nightly report", first["LOCKPORT_NAME"])
	require.Regexp(t, `^[0-9a-f]{32}:`, first["LOCKPORT_OWNER"])
	require.NotEqual(t, first["LOCKPORT_OWNER"], second["LOCKPORT_OWNER"])
	require.Len(t, both, 8)
	require.Equal(t, []string{"nightly report", "z"}, []string{both["LOCKPORT_NAME_1"], both["LOCKPORT_NAME_2"]}, "in order")
}

// watch may reap the command. Its status counts.
func TestReapKeepsTheStatusThatWatchTook(t *testing.T) {
	cmd := exec.Command("sh", "-c", "exit 7")
	require.NoError(t, cmd.Start())
	stops := make(chan syscall.Signal)
	close(stops)
	c := &child{group: cmd.Process.Pid, stops: stops}
	require.NoError(t, peer.ErrOf(syscall.Wait4(c.group, &c.status, 0, nil))) // as watch does
	require.Equal(t, 7, c.reap().ExitStatus())
}

// A command that is stopped by SIGSTOP has not ended.
func TestWatchReportsSIGSTOP(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	require.NoError(t, cmd.Start())
	stops := make(chan syscall.Signal)
	c := &child{group: cmd.Process.Pid, stops: stops}
	go func() { c.watch(stops); close(stops) }()
	require.NoError(t, syscall.Kill(c.group, syscall.SIGSTOP))
	signal, running := <-stops
	require.True(t, running)
	require.Equal(t, syscall.SIGSTOP, signal)
	require.NoError(t, syscall.Kill(c.group, syscall.SIGKILL))
	_, running = <-stops
	require.False(t, running)
	require.Equal(t, syscall.SIGKILL, c.reap().Signal())
}

// A group of another user's processes, which cannot be signaled, is alive.
func TestGroupAliveOfAnotherUser(t *testing.T) {
	out := peer.Must(exec.Command("ps", "-axo", "uid=,pgid=,stat=").Output())(t)
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) < 3 || f[0] != "0" || f[2][0] == 'Z' {
			continue
		}
		if group, _ := strconv.Atoi(f[1]); group > 1 && syscall.Kill(-group, 0) == syscall.EPERM {
			require.True(t, groupAlive(group))
			return
		}
	}
	require.True(t, groupAlive(syscall.Getpgrp()), "root can signal every process")
}
