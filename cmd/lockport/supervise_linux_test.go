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
)

// TestSuperviseRemoval: a removed lock ends the command and its group: SIGTERM at once, and SIGKILL only for what ignores it. (The commands are
// started by way of this test binary, see TestMain, and hold locks of a memory server in this process.)
func TestSuperviseRemoval(t *testing.T) {
	const loop = `echo $$ >>"$0"; while :; do sleep 0.01; done`
	for name, tt := range map[string]struct {
		script    string // it writes its process id first
		killAfter time.Duration
		removed   string // when the lock is removed: "before" the command begins, or when it is "running" or "stopped"
		wrote     string
	}{
		"before it began":   {`echo began >>"$0"`, time.Second, "before", ""},
		"heeds":             {`trap 'echo asked >>"$0"; sleep 0.3; echo cleaned up >>"$0"; exit 0' TERM; ` + loop, 20 * time.Minute, "running", "asked\ncleaned up\n"},
		"ignores":           {`trap 'echo asked >>"$0"' TERM; ` + loop, 300 * time.Millisecond, "running", "asked\n"},
		"must be continued": {`trap 'echo asked >>"$0"; exit 0' TERM; echo $$ >>"$0"; kill -STOP $$; ` + loop, 20 * time.Minute, "stopped", "asked\n"},
		"its child ignores": {`(trap "" TERM; echo $$ >>"$0"; sleep 1000 & wait) & wait`, 100 * time.Millisecond, "running", ""},
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
			client, err := lockport.New(memorytest.NewBackend(server, nil), lockport.TTL(time.Hour), lockport.Logger(nil))
			require.NoError(t, err)
			defer client.Close()
			lock, err := lockport.TryAcquireAll(t.Context(), client, []string{"a"})
			require.NoError(t, err)
			if tt.removed == "before" {
				server.Lose("a", nil)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
					if group, _ := wrote(); group > 0 && (tt.removed == "running" || state(group) == "T") || tt.removed == "before" {
						break
					}
				}
				server.Lose("a", nil)
			}()
			var said strings.Builder
			o := runOptions{names: []string{"a"}, command: []string{"sh", "-c", tt.script, file}, ttl: time.Hour, killAfter: tt.killAfter}
			code, asked, err := supervise(&console{err: &said}, o, "/bin/sh", "memory", lock, lock.Locks(), make(chan os.Signal, 1))
			<-done
			require.NoError(t, err)
			require.False(t, asked)
			require.Equal(t, 79, code, "a command that was ended for the lock's sake has not succeeded")
			require.Regexp(t, `^lockport: [^\n]+; ending the command\n$`, said.String())
			group, rest := wrote()
			require.Equal(t, tt.wrote, rest)
			if tt.removed == "before" {
				require.NoFileExists(t, file)
			} else {
				require.Positive(t, group)
				require.False(t, groupAlive(group))
			}
		})
	}
}
