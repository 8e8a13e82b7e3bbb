package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/backend/memory/memorytest"
	"github.com/lockport/lockport/driver"
)

// scene is a command under a lock of the memory backend in this process, with whose server the test can play. (The command is started by
// way of this test binary, see TestMain.)
type scene struct {
	t      *testing.T
	server *memory.Server
	faults *memorytest.Backend
	o      runOptions
	file   string // the command's $0
	said   strings.Builder

	heldAtEnd bool // the server still kept the lock when the command had ended
}

func newScene(t *testing.T, script string, ttl, killAfter time.Duration) *scene {
	s := &scene{t: t, server: memory.NewServer(), file: filepath.Join(t.TempDir(), "file")}
	s.faults = memorytest.NewBackend(s.server, nil)
	s.o = runOptions{name: "a", command: []string{"sh", "-c", script, s.file}, ttl: ttl, killAfter: killAfter}
	return s
}

// run acquires the lock, calls before, runs the command and meanwhile during, and returns the exit code.
func (s *scene) run(before, during func()) int {
	client, err := lockport.New(s.faults, lockport.TTL(s.o.ttl), lockport.Logger(nil))
	require.NoError(s.t, err)
	defer client.Close()
	lock, err := client.TryAcquire(s.t.Context(), "a")
	require.NoError(s.t, err)
	before()
	done := make(chan struct{})
	go func() { defer close(done); during() }()
	code, err := supervise(&console{err: &s.said}, s.o, "/bin/sh", "memory", lock, make(chan os.Signal, 1))
	s.heldAtEnd = s.held()
	<-done
	s.faults.Fail(nil) // or Close would wait for the server
	require.NoError(s.t, err)
	return code
}

// held says whether the server still keeps the lock.
func (s *scene) held() bool {
	st, err := memorytest.NewBackend(s.server, nil).Inspect(s.t.Context(), "a")
	return err == nil && st.Held
}

// wrote is what the command wrote to its file.
func (s *scene) wrote() string {
	text, _ := os.ReadFile(s.file)
	return string(text)
}

// awaitReady waits, in another goroutine than the test's, until the command wrote a line.
func (s *scene) awaitReady() {
	for deadline := time.Now().Add(patience); !strings.Contains(s.wrote(), "\n") && time.Now().Before(deadline); {
		time.Sleep(2 * time.Millisecond)
	}
}

func nothing() {}

// TestSuperviseLostBeforeTheCommandBegan: the time between the grant and the command's first instruction counts too.
func TestSuperviseLostBeforeTheCommandBegan(t *testing.T) {
	t.Parallel()
	s := newScene(t, `echo began >"$0"`, time.Minute, time.Second)
	require.Equal(t, 79, s.run(func() { s.server.Lose("a", nil) }, nothing))
	require.Regexp(t, `^lockport: [^\n]+; ending the command\n$`, s.said.String())
	require.Empty(t, s.wrote())
}

// TestSuperviseRemovalOfAPausedCommand: a stopped process must be continued to hear SIGTERM.
func TestSuperviseRemovalOfAPausedCommand(t *testing.T) {
	t.Parallel()
	s := newScene(t, `trap 'echo asked >>"$0"; exit 0' TERM; echo $$ >>"$0"; kill -STOP $$; while :; do sleep 0.01; done`, time.Hour, 20*time.Minute)
	require.Equal(t, 79, s.run(nothing, func() {
		s.awaitReady()
		group, _ := strconv.Atoi(strings.TrimSpace(s.wrote()))
		for deadline := time.Now().Add(patience); state(group) != "T" && time.Now().Before(deadline); {
			time.Sleep(2 * time.Millisecond)
		}
		s.server.Lose("a", nil)
	}))
	require.Contains(t, s.wrote(), "asked\n")
}

// TestSuperviseRemovalKillsWhatIgnoresIt: also what the command, which ends at once, leaves in its group.
func TestSuperviseRemovalKillsWhatIgnoresIt(t *testing.T) {
	t.Parallel()
	script := `(trap "" TERM; sleep 1000 & wait) & echo $$ >"$0"; wait`
	s := newScene(t, script, time.Hour, 100*time.Millisecond)
	var group int
	require.Equal(t, 79, s.run(nothing, func() {
		s.awaitReady()
		group, _ = strconv.Atoi(strings.TrimSpace(s.wrote()))
		s.server.Lose("a", nil)
	}))
	require.Positive(t, group)
	require.False(t, groupAlive(group))
}

const (
	heeds   = `trap 'echo asked >>"$0"; sleep 0.5; echo cleaned up >>"$0"; exit 0' TERM; echo ready >>"$0"; while :; do sleep 0.01; done`
	ignored = `trap 'echo asked >>"$0"' TERM; echo ready >>"$0"; while :; do sleep 0.01; done`

	removed = `^lockport: [^\n]+; ending the command\n$`
	silent  = `^lockport: the lock server was not heard from in time; [^\n]+\n$`
)

// supervised runs a command whose lock is lost by what during does, once it is ready.
func supervised(t *testing.T, script string, ttl, killAfter time.Duration, during func(s *scene)) *scene {
	t.Helper()
	t.Parallel()
	s := newScene(t, script, ttl, killAfter)
	require.Equal(t, 79, s.run(nothing, func() { s.awaitReady(); during(s) }), "a command that was ended for the lock's sake has not succeeded")
	return s
}

// TestSuperviseRemovalKills: SIGTERM at once, and SIGKILL only for what ignores it.
func TestSuperviseRemovalKills(t *testing.T) {
	for name, tt := range map[string]struct {
		script    string
		killAfter time.Duration
		wrote     string
	}{
		"heeds":   {heeds, 20 * time.Minute, "ready\nasked\ncleaned up\n"},
		"ignores": {ignored, 300 * time.Millisecond, "ready\nasked\n"},
	} {
		t.Run(name, func(t *testing.T) {
			s := supervised(t, tt.script, time.Hour, tt.killAfter, func(s *scene) { s.server.Lose("a", nil) })
			require.Equal(t, tt.wrote, s.wrote())
			require.Regexp(t, removed, s.said.String())
		})
	}
}

// TestSuperviseSilence: the command has the time of --kill-after, and is gone while the server still keeps the lock.
func TestSuperviseSilence(t *testing.T) {
	for name, tt := range map[string]struct {
		script    string
		killAfter time.Duration
		wrote     string
	}{
		"heeds":   {heeds, 1900 * time.Millisecond, "ready\nasked\ncleaned up\n"},
		"ignores": {ignored, time.Second, "ready\nasked\n"},
	} {
		t.Run(name, func(t *testing.T) {
			s := supervised(t, tt.script, 4*time.Second, tt.killAfter, func(s *scene) { s.faults.Fail(driver.ErrUnavailable) })
			require.True(t, s.heldAtEnd, "somebody else could have had the lock while the command ran")
			require.Equal(t, tt.wrote, s.wrote())
			require.Regexp(t, silent, s.said.String())
		})
	}
}

// TestSuperviseShortSilence: an outage that a renewal survives is nobody's business.
func TestSuperviseShortSilence(t *testing.T) {
	t.Parallel()
	s := newScene(t, `trap 'echo asked >>"$0"' TERM; echo ready >>"$0"; sleep 3; exit 3`, 2*time.Second, time.Second/2)
	require.Equal(t, 3, s.run(nothing, func() { s.awaitReady(); <-s.faults.FailNext(memorytest.Renew, nil) }))
	require.Equal(t, "ready\n", s.wrote())
	require.Empty(t, s.said.String())
}
