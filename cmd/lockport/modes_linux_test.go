package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

// TestRunModes is on files what serverTests are on servers.
func TestRunModes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T, string){"torn file": testTornFile, "counted permits": testCountedPermits, "holders": testHolders} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, folder(t))
		})
	}
}

// capabilitiesOf are those of the backend of url.
func capabilitiesOf(t *testing.T, url string) driver.Capabilities {
	t.Helper()
	v, err := openView("status", url)
	require.NoError(t, err)
	defer v.close()
	return v.caps
}

// crowd runs lockport again and again in each of several goroutines, and returns what all of them have written.
func crowd(t *testing.T, goroutines, each int, url string, args ...string) (said func() string) {
	return crowdOf(t, goroutines, each, func() *process { return prepare(url, args...) })
}

// crowdOf is crowd for any command.
func crowdOf(t *testing.T, goroutines, each int, command func() *process) (said func() string) {
	var all sync.WaitGroup
	out := new(buffer)
	for range goroutines {
		all.Go(func() {
			for range each {
				p := command()
				p.WaitDelay, p.Stdout = patience, out
				if err := p.Run(); err != nil {
					t.Errorf("%v: %v: %s", p.Args, err, p.err.String())
					return
				}
			}
		})
	}
	return func() string { all.Wait(); return out.String() }
}

// testTornFile: writers tear a file in two and mend it, beside readers. No reader sees it torn, or sees it change. On etcd, etcdctl is one of the writers.
func testTornFile(t *testing.T, url string) {
	if !capabilitiesOf(t, url).Shared {
		return
	}
	const tear = `printf "$$ " >"$0"; sleep 0.01; echo $$ >>"$0"`
	const look = `read a b <"$0"; sleep 0.01; read c d <"$0"; echo "$a $b $c $d"`
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("0 0\n"), 0o600))
	writers := crowd(t, 4, 4, url, "run", "torn", "--", "sh", "-c", tear, file)
	readers := crowd(t, 8, 4, url, "run", "--shared", "torn", "--", "sh", "-c", look, file)
	if server, ok := strings.CutPrefix(url, "etcd://"); ok {
		etcdctl := servers.NeedProgram(t, "etcdctl", "etcd")
		crowdOf(t, 1, 4, func() *process {
			p := &process{Cmd: exec.Command(etcdctl, "--endpoints", server, "lock", "lockport/torn", "--", "sh", "-c", tear, file)}
			p.Env, p.Stderr = append(p.Environ(), "ETCDCTL_API=3"), &p.err
			return p
		})()
	}
	writers()
	seen := map[string]bool{}
	for line := range strings.Lines(readers()) {
		halves := strings.Fields(line)
		require.Len(t, halves, 4, "a reader saw a torn file: %q", line)
		require.Len(t, slices.Compact(halves), 1, "a reader saw a torn file, or saw it change: %q", line)
		seen[halves[0]] = true
	}
	require.Greater(t, len(seen), 1, "no reader ran between writers")
}

// testCountedPermits: of many processes with three permits, three are at work at a time, and never more.
func testCountedPermits(t *testing.T, url string) {
	if !capabilitiesOf(t, url).Permits {
		return
	}
	const count = `: >"$0/$$"; for i in 1 2 3 4 5 6 7 8 9 10; do set -- "$0"/*; echo $#; sleep 0.02; done; rm "$0/$$"`
	most := 0
	for line := range strings.Lines(crowd(t, 12, 1, url, "run", "--permits", "3", "counted", "--", "sh", "-c", count, t.TempDir())()) {
		n, err := strconv.Atoi(strings.TrimSpace(line))
		require.NoError(t, err)
		most = max(most, n)
	}
	require.Equal(t, 3, most)
}

// testHolders: all readers, and all who have a permit, are shown, and one of them can be ended.
func testHolders(t *testing.T, url string) {
	caps := capabilitiesOf(t, url)
	for mode, stated := range map[string]bool{"--shared": caps.Shared, "--permits=4": caps.Permits} {
		if !stated {
			continue
		}
		name, holders, pids := "holders"+mode, map[int]*process{}, []int(nil)
		for range 3 {
			p := start(t, url, "run", mode, name, "--", "sh", "-c", "echo ready; exec sleep 1000")
			p.says(t, "ready")
			holders[p.Process.Pid], pids = p, append(pids, p.Process.Pid)
		}
		slices.Sort(pids)
		st := statusJSON(t, url, name)[0]
		all := append([]lockJSON{st}, st.Others...)
		var shown []int
		for _, h := range all {
			require.Equal(t, mode == "--shared", h.Shared)
			require.Equal(t, mode != "--shared", h.Permits == 4 || h.Permits == -1) // databases do not know how many there are
			shown = append(shown, h.PID)
		}
		slices.Sort(shown)
		require.Equal(t, pids, shown)
		stdout, _ := ran(t, 0, url, "status", name)
		require.Regexp(t, `(?m)^(shared by +3 readers|permits +3 (of 4 )?are held.*)$`, stdout)

		refuses(t, url, 64, "has 3 holders: give --owner", "break", "--yes", "--url", url, name)
		one := all[1]
		if caps.Ends == driver.EndsProcess {
			_, stderr := ran(t, 69, url, "break", "--yes", "--owner", one.Owner, name)
			require.Contains(t, stderr, "it ends with its process: kill "+strconv.Itoa(one.PID))
			require.NoError(t, holders[one.PID].Process.Kill())
			holders[one.PID].code(t)
		} else {
			ran(t, 0, url, "break", "--yes", "--owner", one.Owner, name)
			require.Equal(t, 79, holders[one.PID].code(t), holders[one.PID].err.String())
		}
		eventually(t, func() bool { return len(statusJSON(t, url, name)[0].Others) == 1 }, "it is shown still")
		for pid, p := range holders {
			require.Equal(t, pid == one.PID, p.ended(), "another was ended")
		}
	}
}
