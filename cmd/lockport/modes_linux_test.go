package main

import (
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHoldersOfFiles is on files what serverTests are on servers.
func TestHoldersOfFiles(t *testing.T) {
	t.Parallel()
	testHolders(t, folder(t))
}

// testHolders: all readers, and all who have a permit, are shown, and one of them can be ended.
func testHolders(t *testing.T, url string) {
	for _, mode := range []string{"--shared", "--permits=4"} {
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
		if scheme(url) == "file" {
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
