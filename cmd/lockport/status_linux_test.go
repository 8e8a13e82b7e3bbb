package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/servers"
)

// statusJSON is what --json says of one lock, or of all.
func statusJSON(t *testing.T, url string, args ...string) []lockJSON {
	t.Helper()
	code, stdout, stderr := output(t, url, append([]string{"status", "--json"}, args...)...)
	require.Contains(t, []int{0, 1}, code, stderr)
	require.Empty(t, stderr)
	var report struct {
		Backend string
		Locks   []lockJSON
	}
	d := json.NewDecoder(strings.NewReader(stdout))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&report), stdout)
	require.Equal(t, scheme(url), report.Backend)
	return report.Locks
}

// holding starts a run that holds name and says so.
func holding(t *testing.T, url, name string) (holder *process, token string) {
	t.Helper()
	holder = prepare(url, "run", name, "--", "sh", "-c", `echo "token=$LOCKPORT_TOKEN"; echo ready; exec sleep 1000`)
	holder.Env = append(holder.Env, "LOCKPORT_TOKEN=7") // stale: it must go, also where the backend has no tokens
	holder.begin(t)
	holder.says(t, "ready")
	line, _, _ := strings.Cut(holder.out.String(), "\n")
	return holder, strings.TrimPrefix(line, "token=")
}

// testStatusAndBreak: a real holder and a real waiter are seen, and the holder is broken.
func testStatusAndBreak(t *testing.T, url string) {
	const name = "jobs/ä *?[%{}]"
	scheme := scheme(url)
	code, stdout, stderr := output(t, url, "status")
	require.Empty(t, stdout)
	if scheme != "postgres" {
		require.Equal(t, 0, code, stderr)
		require.Equal(t, "lockport: no lock is held ("+scheme+")\n", stderr)
	} else {
		require.Equal(t, 69, code)
		require.Regexp(t, `^lockport: [^\n]*hashes of names[^\n]*; name the lock: lockport status NAME\n$`, stderr)
	}
	stdout, stderr = ran(t, 1, url, "status", name)
	require.Contains(t, stdout, "nobody")
	require.Empty(t, stderr)
	_, stderr = ran(t, 1, url, "break", "--yes", name)
	require.Equal(t, `lockport: nobody holds "jobs/ä *?[%{}]"`+"\n", stderr)

	began := time.Now()
	holder, token := holding(t, url, name)
	require.Regexp(t, `^[1-9][0-9]+$`, token)
	host, _ := os.Hostname()
	waiter := start(t, url, "run", name, "--", "echo", "mine")
	var st lockJSON
	eventually(t, func() bool {
		st = statusJSON(t, url, name)[0]
		return st.Waiters == nil || *st.Waiters == 1
	}, "the waiter is not seen: %+v", &st)
	require.True(t, st.Held && !st.Foreign)
	require.Equal(t, []any{name, host, holder.Process.Pid, "lockport"}, []any{st.Name, st.Host, st.PID, st.Label})
	known := map[string][]any{ // token, since, expires, waiters
		"redis": {false, false, true, true}, "postgres": {false, false, false, true}, "mysql": {true, true, false, false},
	}
	require.Equal(t, known[scheme], []any{st.Token != 0, st.Since != nil, st.Expires != nil, st.Waiters != nil})
	if st.Since != nil {
		require.WithinRange(t, *st.Since, began.Add(-2*time.Second), time.Now().Add(time.Second))
	}
	if st.Expires != nil {
		require.WithinRange(t, *st.Expires, time.Now().Add(-time.Second), time.Now().Add(17*time.Second))
	}
	stdout, _ = ran(t, 0, url, "status", name)
	require.Regexp(t, `(?m)^holder +`+host+`, pid `+strconv.Itoa(holder.Process.Pid)+`, lockport$`, stdout)
	require.Regexp(t, `(?m)^lock +"jobs/ä \*\?\[%\{\}\]" \(`+scheme+`\)$`, stdout)
	if st.Token == 0 {
		token = "not known"
	} else {
		require.Equal(t, token, strconv.FormatUint(st.Token, 10))
	}
	require.Regexp(t, `(?m)^token +`+token+`$`, stdout)

	other, _ := holding(t, url, "jobsx")
	if scheme != "postgres" {
		testList(t, url, st)
	}
	stdout, stderr = ran(t, 0, url, "break", "--yes", name)
	require.Empty(t, stdout)
	require.Contains(t, stderr, fmt.Sprintf("lockport: ended: \"jobs/ä *?[%%{}]\" is no longer held by %s, pid %d, lockport. It is told within ", host, holder.Process.Pid))
	require.Equal(t, 79, holder.code(t), holder.err.String())
	waiter.says(t, "mine")
	require.Equal(t, 0, waiter.code(t))
	require.False(t, other.ended(), "another holder's lock was ended")
}

// TestStatusWhereNoLockCanBeTaken: a replica, and a server that is full, show the locks that they have.
func TestStatusWhereNoLockCanBeTaken(t *testing.T) {
	t.Parallel()
	server := servers.NeedRedis(t, servers.RedisOptions{})
	holder, _ := holding(t, server.URL(), "a")
	replica := servers.NeedReplica(t, server)
	require.Equal(t, holder.Process.Pid, statusJSON(t, replica.URL(), "a")[0].PID)
	require.Len(t, statusJSON(t, replica.URL()), 1)
	_, stderr := ran(t, 69, replica.URL(), "break", "--yes", "a")
	require.Contains(t, stderr, "replica")
	_, err := server.Do(t.Context(), "CONFIG", "SET", "maxmemory", "1")
	require.NoError(t, err)
	require.Equal(t, holder.Process.Pid, statusJSON(t, server.URL(), "a")[0].PID)
	ran(t, 0, server.URL(), "break", "--yes", "a")
}

// TestStatusOfFlock: who locks a file with flock(1) is foreign, also where a holder that was killed has left its record in the file.
func TestStatusOfFlock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	dead := start(t, "file://"+dir, "run", "a", "--", "sh", "-c", family)
	group := dead.group(t)
	require.NoError(t, dead.Process.Kill())
	dead.code(t)
	eventually(t, func() bool { return !groupAlive(group) }, "its command lives on")
	files, err := filepath.Glob(filepath.Join(dir, "*.lock"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	f, err := os.OpenFile(files[0], os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX))
	stdout, _ := ran(t, 0, "file://"+dir, "status", "a")
	require.Regexp(t, `(?m)^holder +foreign, unnamed$`, stdout)
	_, stderr := ran(t, 69, "file://"+dir, "break", "--yes", "a")
	require.Contains(t, stderr, "it ends with its process\n")
}

// testList: status without a name, where the lock of st is held and waited for, and jobsx is held.
func testList(t *testing.T, url string, st lockJSON) {
	t.Helper()
	for prefix, names := range map[string][]string{"": {st.Name, "jobsx"}, "jobs*": nil, "jobs/ä *?[%{": {st.Name}} {
		var got []string
		for _, l := range statusJSON(t, url, "--prefix", prefix) {
			require.True(t, l.Held, "%+v", l)
			if l.Name == st.Name {
				require.Equal(t, []any{st.Owner, st.Token, st.PID, st.Waiters}, []any{l.Owner, l.Token, l.PID, l.Waiters})
			}
			got = append(got, l.Name)
		}
		require.Equal(t, names, got, "prefix %q", prefix)
	}
	stdout, _ := ran(t, 0, url, "status")
	lines := strings.Split(stdout, "\n")
	require.Len(t, lines, 4, stdout)
	require.Equal(t, strings.Index(lines[0], "HOLDER")+len("ä")-1, strings.Index(lines[1], st.Host), "the columns are not aligned:\n%s", stdout)
	require.Contains(t, lines[2], "jobsx  ")
}
