package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/compare"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/report"
	"github.com/lockport/lockport/internal/lab/servers"
)

// comparing prepares a comparison whose temporary files and report are in folders of t's.
func comparing(t *testing.T, args ...string) (p *process, temporary, out string) {
	t.Helper()
	temporary, out = t.TempDir(), filepath.Join(t.TempDir(), "report")
	require.NoError(t, os.Chmod(temporary, 0o711)) // Postgres runs as another user
	require.NoError(t, os.Chmod(filepath.Dir(temporary), 0o711))
	p = prepare("", append([]string{"compare", "--out", out}, args...)...)
	p.Env = append(p.Env, "TMPDIR="+temporary)
	return p, temporary, out
}

// leavesNothing fails t if a comparison leaves a process or a file. All its processes inherit the name of its folder.
func leavesNothing(t *testing.T, temporary string) {
	t.Helper()
	eventually(t, func() bool { return len(users(temporary)) == 0 }, "processes are left: %v", users(temporary))
	require.Empty(t, peer.Must(os.ReadDir(temporary))(t))
}

// users returns the processes whose environment mentions a folder.
func users(folder string) map[int]string { return processesWith("environ", "="+folder) }

// A missing server is named, with the command that installs it. The others are compared, and only the report is left.
func TestCompareWithoutAServer(t *testing.T) {
	t.Parallel()
	p, temporary, out := comparing(t, "--backend", "file,etcd", "--scenario", "H14,cycle")
	p.Env = append(p.Env, "LOCKPORT_TEST_WITHOUT=etcd")
	p.begin(t)
	require.Eventually(t, p.ended, 5*time.Minute, 10*time.Millisecond, "the comparison does not end")
	require.Equal(t, exitOK, p.code(t), "%s", p.err.String())
	leavesNothing(t, temporary)
	require.Contains(t, p.err.String(), "not installed: etcd, for etcd; to install it: apt-get install etcd-server")
	var r report.Report
	require.NoError(t, json.Unmarshal(peer.Must(os.ReadFile(filepath.Join(out, compare.JSONFile)))(t), &r))
	require.Len(t, r.Missing, 1)
	require.Equal(t, "etcd", r.Missing[0].Program)
	classes := make(map[string]report.Cell)
	for _, c := range r.Cells {
		classes[c.Subject] = c
	}
	require.Equal(t, report.Safe, classes["file"].Class)
	require.Contains(t, classes["etcd"].NotRun, "etcd")
	require.Len(t, r.Costs, 1)
	require.FileExists(t, filepath.Join(out, compare.HTMLFile))
	p.says(t, filepath.Join(out, compare.HTMLFile))
	require.NotContains(t, p.out.String(), "from the kill", "it explains what it did not measure")
}

// Ctrl-C in the middle ends every server and worker, and removes their folders. So does the end of a comparison that is killed.
func TestCompareInterrupted(t *testing.T) {
	t.Parallel()
	servers.NeedRedis(t, servers.RedisOptions{})
	for signal, code := range map[syscall.Signal]int{syscall.SIGINT: signalCode(syscall.SIGINT), syscall.SIGKILL: -1} {
		p, temporary, _ := comparing(t, "--backend", "redis", "--scenario", "handoff")
		p.begin(t)
		// Besides the comparison, and the shell and its cat that remove the folders, these are workers. Servers have another environment.
		eventually(t, func() bool { return len(users(temporary)) > 3 }, "it started nothing: %s", p.err.String())
		p.ends(t, signal, code)
		leavesNothing(t, temporary)
	}
}
