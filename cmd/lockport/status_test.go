//go:build linux || darwin

package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
)

func TestStatusOfFiles(t *testing.T) {
	t.Parallel()
	url := folder(t)
	stdout, stderr := ran(t, 0, url, "status")
	require.Empty(t, stdout)
	require.Equal(t, "lockport: no lock is held (file)\n", stderr)
	stdout, stderr = ran(t, 1, url, "status", "a")
	require.Regexp(t, `^lock +a \(file\)\nholder +nobody\nwaiting +not known\n$`, stdout)
	require.Empty(t, stderr)

	holder := start(t, url, "run", "a", "b c", "ab", "\x1b[31mred\n", `"`, "é", "--", "sh", "-c", "echo ready; exec sleep 1000")
	holder.says(t, "ready")
	stdout, stderr = ran(t, 0, url, "status")
	require.Empty(t, stderr)
	var shown []string
	for _, line := range strings.Split(strings.TrimSpace(stdout), "\n")[1:] {
		shown = append(shown, regexp.MustCompile(`  +`).Split(line, 2)[0])
	}
	require.Equal(t, []string{`"\x1b[31mred\n"`, `"\""`, "a", "ab", `"b c"`, "é"}, shown, stdout)
	stdout, _ = ran(t, 0, url, "status", "--prefix", "a")
	require.Equal(t, 3, strings.Count(stdout, "\n"), stdout)
	stdout, stderr = ran(t, 0, url, "status", "--prefix=x")
	require.Empty(t, stdout)
	require.Equal(t, "lockport: no held lock has a name that starts with \"x\"\n", stderr)
	stdout, _ = ran(t, 0, url, "status", "--json", "--prefix=x")
	require.JSONEq(t, `{"backend": "file", "locks": []}`, stdout)
	stdout, _ = ran(t, 1, url, "status", "--json", "x")
	require.JSONEq(t, `{"backend": "file", "locks": [{"name": "x", "held": false, "foreign": false}]}`, stdout)

	stdout, stderr = ran(t, 69, url, "break", "--yes", "é")
	require.Empty(t, stdout)
	require.Contains(t, stderr, fmt.Sprintf("\nlockport: the backend file cannot end a hold by force: it ends with its process: kill %d (on ", holder.Process.Pid))
	require.False(t, holder.ended())
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
		{lockport.Status{Held: true, Foreign: true}, "foreign, unnamed"},
		{lockport.Status{Held: true, Foreign: true, Owner: "\x1b[2J\xff"}, `foreign: "\x1b[2J\xff"`},
		{lockport.Status{Held: true, Foreign: true, Owner: strings.Repeat("ä", 1000)}, "foreign: " + strings.Repeat("ä", 99) + "…"},
	} {
		require.Equal(t, tt.want, who(tt.st))
	}
}

func TestAge(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 1234 * time.Millisecond: "1.2s", 12345 * time.Millisecond: "12s", 26*time.Hour + time.Millisecond: "26h0m0s",
	} {
		require.Equal(t, want, age(d))
	}
}

// One long name does not make all lines long.
func TestTableOfLongNames(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	require.NoError(t, writeTable(&b, []lockport.Status{{Name: "a"}, {Name: strings.Repeat("ä", 512)}}))
	lines := strings.Split(b.String(), "\n")
	require.Regexp(t, "^a  +nobody ", lines[1])
	require.Regexp(t, "^ä{59}…  nobody ", lines[2])
	require.Less(t, len(lines[1]), 150)
}
