package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/backend/memory/memorytest"
	"github.com/lockport/lockport/internal/lab/peer"
)

// TestSuperviseRemoval: a removed lock ends the command and its group, with SIGTERM at once, and SIGKILL only if that is ignored. The commands are
// started through this test binary, see TestMain, and hold locks of a memory server in this process.
func TestSuperviseRemoval(t *testing.T) {
	const loop = `echo $$ >>"$0"; while :; do sleep 0.01; done`
	for name, tt := range map[string]struct {
		script    string // it writes its process id first
		killAfter time.Duration
		removed   string // when the lock is removed: "before" the command begins, or when it is "running" or "stopped"
		wrote     string
	}{
		"unread messages":   {loop, 20 * time.Minute, "running", ""},
		"before it began":   {`echo began >>"$0"`, time.Second, "before", ""},
		"heeds":             {`trap 'echo asked >>"$0"; sleep 0.3; echo cleaned up >>"$0"; exit 0' TERM; ` + loop, 20 * time.Minute, "running", "asked\ncleaned up\n"},
		"ignores":           {`trap 'echo asked >>"$0"' TERM; ` + loop, 3 * time.Second, "running", "asked\n"},
		"must be continued": {`trap 'echo asked >>"$0"; exit 0' TERM; echo $$ >>"$0"; kill -STOP $$; ` + loop, 20 * time.Minute, "stopped", "asked\n"},
		"its child ignores": {`(trap "" TERM; echo $$ >>"$0"; sleep 1000 & wait) & wait`, 100 * time.Millisecond, "running", ""},
		"a chain ignores":   {`(trap "" TERM; f() { f & }; f) & echo $$ >>"$0"; exec sleep 1000`, 100 * time.Millisecond, "running", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "file")
			wrote := func() (group int, rest string) {
				text, _ := os.ReadFile(file)
				first, rest, _ := strings.Cut(string(text), "\n")
				group, _ = strconv.Atoi(first)
				return group, rest
			}
			server := memory.NewServer()
			client := peer.Client(t, memorytest.NewBackend(server, nil), lockport.TTL(time.Hour))
			lock, err := lockport.TryAcquireAll(t.Context(), client, []string{"a"})
			require.NoError(t, err)
			if tt.removed == "before" {
				server.Lose("a", nil)
			}
			var said strings.Builder
			var messages io.Writer = &said
			unread := name == "unread messages"
			if unread { // as on a terminal that Ctrl-S stopped
				_, messages = io.Pipe()
			}
			o := runOptions{names: []string{"a"}, command: []string{"sh", "-c", tt.script, file}, ttl: time.Hour, killAfter: tt.killAfter}
			r := &runner{c: &console{err: messages}, o: o, path: "/bin/sh", signals: make(chan os.Signal, 1), client: client}
			var code int
			var asked bool
			var running sync.WaitGroup
			running.Go(func() { code, asked, err = r.supervise(lock, lock.Locks()) })
			if tt.removed != "before" {
				eventually(t, func() bool {
					group, _ := wrote()
					return group > 0 && (tt.removed == "running" || state(group) == "T")
				}, "it does not begin")
				server.Lose("a", nil)
			}
			running.Wait()
			require.NoError(t, err)
			require.False(t, asked)
			require.Equal(t, 79, code, "a command that was ended because of the lock has not succeeded")
			if !unread {
				require.Regexp(t, `^lockport: [^\n]+; ending the command\n$`, said.String())
			}
			group, rest := wrote()
			require.Equal(t, tt.wrote, rest)
			if tt.removed == "before" {
				require.NoFileExists(t, file)
			} else {
				require.Positive(t, group)
				for range 20 { // each can miss a chain of processes
					require.False(t, groupAlive(group))
				}
			}
		})
	}
}

// untilThen is a lock that is valid until then.
type untilThen struct {
	hold
	then time.Time
}

func (untilThen) Err() error                    { return nil }
func (u untilThen) Deadline() (time.Time, bool) { return u.then, true }

// TestSuperviseShortValidity: a command continues while the server answers, even if the server grants less than the TTL, as ZooKeeper may.
func TestSuperviseShortValidity(t *testing.T) {
	granted := time.Now()
	s := &supervisor{
		runner: &runner{c: &console{err: io.Discard}, o: runOptions{ttl: 15 * time.Second, killAfter: 5 * time.Second}},
		lock:   untilThen{then: granted.Add(5200 * time.Millisecond)}, // a session of 8 s, less a tick of 2 s and the margin
		guard:  &guard{},                                              // without a process
		child:  &child{group: 1 << 30},                                // no process has this id
	}
	s.check(granted)
	s.check(granted.Add(time.Second)) // when it is renewed
	require.False(t, s.lost)
	s.check(granted.Add(3 * time.Second))
	require.True(t, s.lost, "the command could outlive the lock")
}

// testGuardActs stops lockport, so that it neither renews nor ends its command. The guard does, a fortieth of the TTL before the validity ends.
func testGuardActs(t *testing.T, url string) {
	const ttl = 8 * time.Second
	p := start(t, url+"?ttl="+ttl.String(), "run", "guarded", "--", "sh", "-c", family)
	group := p.group(t)
	stopped := time.Now()
	require.NoError(t, p.Process.Signal(syscall.SIGSTOP))
	eventually(t, func() bool { return state(p.Process.Pid) == "T" }, "lockport does not stop")
	eventually(t, func() bool { return !groupAlive(group) }, "group %d lives on", group)
	require.Less(t, time.Since(stopped), ttl, "another client could have had the lock while the command ran")
	p.ends(t, syscall.SIGCONT, 79)
	require.Regexp(t, `^lockport: [^\n]+\n$`, p.err.String())
}

// TestGuardThatReadsLate: a guard that runs late honors all deadlines that arrived meanwhile, and kills no sooner than it must.
func TestGuardThatReadsLate(t *testing.T) {
	t.Parallel()
	victim := exec.Command("sleep", "1000")
	victim.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, victim.Start())
	group := victim.Process.Pid
	t.Cleanup(func() { _ = victim.Process.Kill(); _ = victim.Wait() })
	require.Error(t, peer.ErrOf(startGuard(1, nil)), "a guard that ends at once")
	g := peer.Must(startGuard(group, nil))(t)
	t.Cleanup(g.release)

	require.NoError(t, g.process.Signal(syscall.SIGSTOP))
	eventually(t, func() bool { return state(g.process.Pid) == "T" }, "the guard does not stop")
	over := time.Now().Add(10 * time.Millisecond)
	g.setDeadline(over)
	eventually(t, func() bool { return time.Now().After(over) }, "time stands still")
	g.setDeadline(over.Add(time.Hour))
	require.NoError(t, g.process.Signal(syscall.SIGCONT))
	eventually(t, func() bool { // a guard that kills no longer reads
		unread, err := unix.IoctlGetInt(int(g.pipe.Fd()), unix.TIOCINQ)
		return err == nil && unread == 0
	}, "it reads nothing")
	require.True(t, groupAlive(group), "the lock was renewed")

	deadline := time.Now().Add(200 * time.Millisecond)
	g.setDeadline(deadline)
	eventually(t, func() bool { return !groupAlive(group) }, "group %d lives on", group)
	require.False(t, time.Now().Before(deadline))
}

// The guard's timers stand still while the machine is suspended, its clock does not. A deadline that arrived just before the last passed counts.
func TestGuardLooksAtItsClock(t *testing.T) {
	t.Parallel()
	pipe, w, err := os.Pipe()
	require.NoError(t, err)
	defer pipe.Close()
	defer w.Close()
	var now atomic.Int64
	ended := make(chan bool)
	go func() { ended <- readable(pipe, time.Hour, func() time.Duration { return time.Duration(now.Load()) }) }()
	now.Store(int64(time.Hour))
	require.False(t, <-ended)

	looks := 0
	require.True(t, readable(pipe, time.Hour, func() time.Duration {
		if looks++; looks == 1 {
			return time.Hour - time.Millisecond
		}
		require.NoError(t, peer.ErrOf(w.Write([]byte{1})))
		return time.Hour
	}))
}

func testOnLostIgnore(t *testing.T, url string) {
	const ttl = time.Second
	p := start(t, url, "run", "--ttl", ttl.String(), "--on-lost", "ignore", "ignored", "--", "sh", "-c", `echo group=$$; while sleep 0.01; do :; done`)
	group := p.group(t)
	stopped := time.Now()
	require.NoError(t, p.Process.Signal(syscall.SIGSTOP))
	eventually(t, func() bool { return time.Since(stopped) > ttl }, "time stands still")
	require.True(t, groupAlive(group))
	require.NoError(t, p.Process.Signal(syscall.SIGCONT))
	eventually(t, func() bool { return p.err.String() != "" }, "the loss was not said")
	require.Regexp(t, `^lockport: .*the command continues, because of --on-lost ignore\n$`, p.err.String())
	require.True(t, groupAlive(group))
	p.ends(t, syscall.SIGTERM, 79)
}
