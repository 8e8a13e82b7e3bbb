package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
)

// statusJSON is the output of --json for one lock, or for all.
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

// testStatusAndBreak: status shows a real holder and a real waiter, and break ends the hold.
func testStatusAndBreak(t *testing.T, url string) {
	const name = "jobs/ä *?[%{}]"
	scheme := scheme(url)
	code, line := 0, "lockport: no lock is held ("+scheme+")\n"
	if scheme == "postgres" {
		code, line = 64, "not their names; name the lock: lockport status NAME\n"
	}
	refuses(t, url, code, line, "status", "--url", url)
	refuses(t, url, 1, `lockport: nobody holds "jobs/ä *?[%{}]"`+"\n", "break", "--yes", name)

	began := time.Now()
	holder := holds(t, url, name)
	token := strconv.Itoa(holder.number(t, "token"))
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
	require.Equal(t, known[scheme], []any{st.Token != 0, !st.Since.IsZero(), !st.Expires.IsZero(), st.Waiters != nil})
	if !st.Since.IsZero() {
		require.WithinRange(t, st.Since, began.Add(-2*time.Second), time.Now().Add(time.Second))
	}
	if !st.Expires.IsZero() {
		require.WithinRange(t, st.Expires, time.Now().Add(-time.Second), time.Now().Add(17*time.Second))
	}
	if st.Token == 0 {
		token = "-"
	} else {
		require.Equal(t, token, strconv.FormatUint(st.Token, 10))
	}
	stdout, _ := ran(t, 0, url, "status", name)
	require.Regexp(t, `\n"jobs/ä \*\?\[%\{\}\]"  `+host+`, pid `+strconv.Itoa(holder.Process.Pid)+`, lockport  .*  `+token+`  +\S+\n$`, stdout)

	other := holds(t, url, "jobsx")
	if scheme != "postgres" {
		testList(t, url, st)
	}
	stdout, stderr := ran(t, 0, url, "break", "--yes", name)
	require.Empty(t, stdout)
	require.Contains(t, stderr, fmt.Sprintf("lockport: ended: \"jobs/ä *?[%%{}]\" is no longer held by %s, pid %d, lockport. The holder learns of this within ", host, holder.Process.Pid))
	require.Equal(t, 79, holder.code(t), holder.err.String())
	waiter.says(t, "mine")
	require.Equal(t, 0, waiter.code(t))
	require.False(t, other.ended(), "another holder's lock was ended")
}

// TestStatusWhereNoLockCanBeTaken: status shows the locks of a replica.
func TestStatusWhereNoLockCanBeTaken(t *testing.T) {
	t.Parallel()
	server := servers.NeedRedis(t, servers.RedisOptions{})
	holder := holds(t, server.URL(), "a")
	replica := servers.NeedReplica(t, server)
	require.Equal(t, holder.Process.Pid, statusJSON(t, replica.URL(), "a")[0].PID)
	require.Len(t, statusJSON(t, replica.URL()), 1)
	_, stderr := ran(t, 69, replica.URL(), "break", "--yes", "a")
	require.Contains(t, stderr, "replica")
}

// testList: status without a name, while the lock of st has a holder and a waiter, and jobsx is held.
func testList(t *testing.T, url string, st lockJSON) {
	t.Helper()
	listed := statusJSON(t, url, "--prefix", "jobs/ä *?[%{")
	require.Len(t, listed, 1)
	listed[0].Expires = st.Expires // it is computed from the time left
	require.Equal(t, st, listed[0])
	stdout, _ := ran(t, 0, url, "status")
	lines := strings.Split(stdout, "\n")
	require.Len(t, lines, 4, stdout)
	require.Equal(t, strings.Index(lines[0], "HOLDER")+len("ä")-1, strings.Index(lines[1], st.Host), "the columns are not aligned:\n%s", stdout)
	require.Contains(t, lines[2], "jobsx  ")
}

// testForeignHolder: status marks a holder that is not a lockport client, and break does not promise that it stops.
func testForeignHolder(t *testing.T, url string) {
	require.NoError(t, peer.ErrOf(servers.SharedRedis(t).Do(t.Context(), "SET", "lockport:theirs", "me, \x1b[31mthe shell")))
	stdout, _ := ran(t, 0, url, "status", "theirs")
	require.Contains(t, stdout, `  foreign: "me, \x1b[31mthe shell"  `)
	require.True(t, statusJSON(t, url, "theirs")[0].Foreign)
	_, stderr := ran(t, 0, url, "break", "--yes", "theirs")
	require.Contains(t, stderr, "may still be working")
}

// TestHoldersOfFiles is testHolders for files instead of servers.
func TestHoldersOfFiles(t *testing.T) {
	t.Parallel()
	testHolders(t, folder(t))
}

// testHolders: status shows all readers and all holders of permits, and break can end one of them.
func testHolders(t *testing.T, url string) {
	for _, mode := range []string{"--shared", "--permits=4"} {
		name, holders, pids := "holders"+mode, map[int]*process{}, []int(nil)
		for range 3 {
			p := holds(t, url, mode, name)
			holders[p.Process.Pid], pids = p, append(pids, p.Process.Pid)
		}
		st := statusJSON(t, url, name)[0]
		all := append([]lockJSON{st}, st.Others...)
		var shown []int
		for _, h := range all {
			require.Equal(t, mode == "--shared", h.Shared)
			require.Equal(t, mode != "--shared", h.Permits == 4 || h.Permits == -1) // databases do not know the number of permits
			shown = append(shown, h.PID)
		}
		require.ElementsMatch(t, pids, shown)
		stdout, _ := ran(t, 0, url, "status", name)
		for _, pid := range pids {
			require.Regexp(t, fmt.Sprintf(`, pid %d, lockport \((reader|1 of 4 permits|1 permit)\) `, pid), stdout)
		}

		refuses(t, url, 64, "has 3 holders: pass --owner", "break", "--yes", "--url", url, name)
		one := all[1]
		if scheme(url) == "file" {
			stdout, stderr := ran(t, 69, url, "break", "--yes", "--owner", one.Owner, name)
			require.Empty(t, stdout)
			require.Regexp(t, fmt.Sprintf(`, pid %d, .*\nlockport: the backend file cannot end a hold by force: end the holder's process\n`, one.PID), stderr)
			holders[one.PID].ends(t, syscall.SIGKILL, -1)
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

func TestStatusOfFiles(t *testing.T) {
	t.Parallel()
	url := folder(t)
	stdout, stderr := ran(t, 1, url, "status", "a")
	require.Regexp(t, `^NAME .*\na +nobody( +-){5}\n$`, stdout)
	require.Empty(t, stderr)

	holds(t, url, "a", "b c", "ab", "\x1b[31mred\n", `"`, "é", strings.Repeat("ä", 512))
	stdout, stderr = ran(t, 0, url, "status")
	require.Empty(t, stderr)
	var shown []string
	for _, line := range strings.Split(strings.TrimSpace(stdout), "\n")[1:] {
		shown = append(shown, regexp.MustCompile(`  +`).Split(line, 2)[0])
	}
	require.Equal(t, []string{`"\x1b[31mred\n"`, `"\""`, "a", "ab", `"b c"`, strings.Repeat("ä", 59) + "…", "é"}, shown, stdout)
	refuses(t, url, 0, "lockport: no held lock has a name that starts with \"x\"\n", "status", "--prefix=x")
	stdout, _ = ran(t, 0, url, "status", "--json", "--prefix=x")
	require.JSONEq(t, `{"backend": "file", "locks": []}`, stdout)
	stdout, _ = ran(t, 1, url, "status", "--json", "x")
	require.JSONEq(t, `{"backend": "file", "locks": [{"name": "x", "held": false, "foreign": false}]}`, stdout)
}

func TestWho(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		st   lockport.Status
		want string
	}{
		{lockport.Status{}, "nobody"},
		{lockport.Status{Held: true, Host: "web1", PID: 4711, Label: "deploy"}, "web1, pid 4711, deploy"},
		{lockport.Status{Held: true, Host: "\x1b[2J", PID: 4711, Label: "de\nploy"}, `"\x1b[2J", pid 4711, "de\nploy"`},
		{lockport.Status{Held: true, Owner: "another form"}, `"another form"`},
		{lockport.Status{Held: true, Owner: "one", Others: make([]lockport.Status, 2)}, "one; and 2 more"},
		{lockport.Status{Held: true, Foreign: true}, "foreign, unnamed"},
		{lockport.Status{Held: true, Foreign: true, Owner: "\x1b[2J\xff"}, `foreign: "\x1b[2J\xff"`},
		{lockport.Status{Held: true, Foreign: true, Owner: strings.Repeat("ä", 1000)}, "foreign: " + strings.Repeat("ä", 99) + "…"},
	} {
		require.Equal(t, tt.want, who(tt.st))
	}
	require.Equal(t, "its other locks, which are not known, would be lost", losses(&driver.SharedSessionError{Others: -1}))
}

// A full disk must not look like a free lock, or like a test that passed.
func TestAnswersThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	full := peer.Must(os.OpenFile("/dev/full", os.O_WRONLY, 0))(t)
	defer full.Close()
	for verb, code := range map[string]int{
		"status a": exitUnavailable, "conform --run ^exclusion/two-backends$": exitFailed, "conform --soak 1s --goroutines 2": exitFailed, "help": exitFailed,
	} {
		require.Equal(t, code, run(t.Context(), &console{out: full, err: io.Discard}, strings.Fields(verb)), verb)
	}
}
