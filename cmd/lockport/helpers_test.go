//go:build linux || darwin

package main

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/peer"
)

// patience bounds every wait for something that must happen. The machine may be busy.
const patience = 30 * time.Second

// process is a lockport under test.
type process struct {
	*exec.Cmd
	out, err buffer
	done     chan struct{} // closed when it has ended
}

// buffer collects what a process writes.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// prepare makes a lockport for the server of url.
func prepare(url string, args ...string) *process {
	p := &process{Cmd: exec.Command(program(), args...), done: make(chan struct{})}
	p.Env = append(os.Environ(), "LOCKPORT_URL="+url)
	p.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // like a service, it has no terminal
	p.Stdout, p.Stderr = &p.out, &p.err
	p.WaitDelay = time.Second // a command that outlives lockport may keep its output open
	return p
}

func (p *process) begin(t *testing.T) *process {
	t.Helper()
	require.NoError(t, p.Start())
	go func() { _ = p.Wait(); close(p.done) }()
	t.Cleanup(func() {
		_ = p.Process.Kill()
		<-p.done
	})
	return p
}

// start starts lockport.
func start(t *testing.T, url string, args ...string) *process {
	t.Helper()
	return prepare(url, args...).begin(t)
}

// code waits for the end and returns the exit code, -1 if a signal ended it.
func (p *process) code(t *testing.T) int {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		require.FailNow(t, "lockport did not end", "%v\n%s%s", p.Args, p.out.String(), p.err.String())
	}
	return p.ProcessState.ExitCode()
}

// ends sends a signal, which must end the process with this exit code.
func (p *process) ends(t *testing.T, signal syscall.Signal, code int) {
	t.Helper()
	require.NoError(t, p.Process.Signal(signal))
	require.Equal(t, code, p.code(t), p.err.String())
}

// says waits until the process has written text to standard output.
func (p *process) says(t *testing.T, text string) {
	t.Helper()
	eventually(t, func() bool { return strings.Contains(p.out.String(), text) }, "%v said %q, not %q; %s",
		p.Args, p.out.String(), text, p.err.String())
}

// ended reports whether the process has ended.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// number reads the number after key= in the output.
func (p *process) number(t *testing.T, key string) int {
	t.Helper()
	var n int
	eventually(t, func() bool {
		_, rest, _ := strings.Cut(p.out.String(), key+"=")
		value, _, complete := strings.Cut(rest, "\n")
		return complete && peer.ErrOf(fmt.Sscanf(strings.TrimSpace(value), "%d", &n)) == nil
	}, "no %s= in %q", key, p.out.String())
	return n
}

// group reads the process group that the command wrote, and ends it after the test.
func (p *process) group(t *testing.T) int {
	t.Helper()
	group := p.number(t, "group")
	t.Cleanup(func() { _ = signalGroup(group, syscall.SIGKILL) })
	return group
}

// eventually polls until ok.
func eventually(t *testing.T, ok func() bool, message string, args ...any) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			require.FailNow(t, "did not happen in time", append([]any{message}, args...)...)
		}
	}
}

// output runs lockport to its end.
func output(t *testing.T, url string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	p := start(t, url, args...)
	return p.code(t), p.out.String(), p.err.String()
}

// ran runs lockport to its end and requires this exit code.
func ran(t *testing.T, want int, url string, args ...string) (stdout, stderr string) {
	t.Helper()
	code, stdout, stderr := output(t, url, args...)
	require.Equal(t, want, code, "%q: %s%s", args, stdout, stderr)
	return stdout, stderr
}

// inside runs a command line that starts nothing, in this process, with locks in TestMain's folder.
func inside(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, said strings.Builder
	return run(t.Context(), &console{out: &out, err: &said}, args), out.String(), said.String()
}

// refuses runs lockport, which must write one line to standard error, without a password, and nothing to standard output.
func refuses(t *testing.T, server string, code int, line string, args ...string) {
	t.Helper()
	run := func() (int, string, string) { return output(t, server, args...) }
	if code == exitUsage && args[0] != "run" { // run changes this process's signal handling
		run = func() (int, string, string) { return inside(t, args...) }
	}
	got, stdout, stderr := run()
	require.Equal(t, code, got, "%q: %s", args, stderr)
	require.Empty(t, stdout)
	require.Regexp(t, `^lockport: [^\n]+\n$`, stderr)
	require.Equal(t, 1, strings.Count(stderr, "lockport: "), stderr)
	require.Contains(t, stderr, line)
	require.NotContains(t, stderr, "secret")
	if password, ok := peer.Must(url.Parse(server))(t).User.Password(); ok {
		require.NotContains(t, stderr, password)
	}
}

// holds starts a command that holds a lock, given as for run, until it is ended. It writes its token.
func holds(t *testing.T, url string, lock ...string) *process {
	t.Helper()
	p := start(t, url, slices.Concat([]string{"run"}, lock, []string{"--", "sh", "-c", `echo "token=$LOCKPORT_TOKEN"; echo ready; exec sleep 1000`})...)
	p.says(t, "ready")
	return p
}

// folder is the URL of one test's folder of locks.
func folder(t *testing.T) string { return "file://" + t.TempDir() }
