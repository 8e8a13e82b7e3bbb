//go:build linux || darwin

package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
)

func TestStatusOfFiles(t *testing.T) {
	t.Parallel()
	url := folder(t)
	code, stdout, stderr := output(t, url, "status")
	require.Equal(t, 0, code)
	require.Empty(t, stdout)
	require.Equal(t, "lockport: no lock is held (file)\n", stderr)
	code, stdout, stderr = output(t, url, "status", "a")
	require.Equal(t, 1, code)
	require.Regexp(t, `^lock +a \(file\)\nholder +nobody\nwaiting +not known\n$`, stdout)
	require.Empty(t, stderr)

	var holder *process
	names := []string{"a", "b c", "ab", "\x1b[31mred\n", `"`, "é"}
	for _, name := range names {
		holder = start(t, url, "run", name, "--", "sh", "-c", "echo ready; exec sleep 1000")
		holder.says(t, "ready")
	}
	code, stdout, stderr = output(t, url, "status")
	require.Equal(t, 0, code, stderr)
	require.Empty(t, stderr)
	var shown []string
	for _, line := range strings.Split(strings.TrimSpace(stdout), "\n")[1:] {
		shown = append(shown, regexp.MustCompile(`  +`).Split(line, 2)[0])
	}
	require.Equal(t, []string{`"\x1b[31mred\n"`, `"\""`, "a", "ab", `"b c"`, "é"}, shown, stdout)
	code, stdout, _ = output(t, url, "status", "--prefix", "a")
	require.Equal(t, 0, code)
	require.Equal(t, 3, strings.Count(stdout, "\n"), stdout)
	code, stdout, stderr = output(t, url, "status", "--prefix=x")
	require.Equal(t, 0, code)
	require.Empty(t, stdout)
	require.Equal(t, "lockport: no lock is held whose name starts with \"x\"\n", stderr)
	code, stdout, _ = output(t, url, "status", "--json", "--prefix=x")
	require.Equal(t, 0, code)
	require.JSONEq(t, `{"backend": "file", "locks": []}`, stdout)
	code, stdout, _ = output(t, url, "status", "--json", "x")
	require.Equal(t, 1, code)
	require.JSONEq(t, `{"backend": "file", "locks": [{"name": "x", "held": false, "foreign": false}]}`, stdout)

	code, stdout, stderr = output(t, url, "break", "--yes", "é")
	require.Equal(t, 69, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, fmt.Sprintf("\nlockport: the backend file cannot end a hold by force: it ends with its process: kill %d (on ", holder.Process.Pid))
	require.False(t, holder.ended())
}

func TestStatusRefusals(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args []string
		code int
		line string
	}{
		{[]string{"status", "a", "b"}, 64, "one lock name"},
		{[]string{"status", "--prefix", "a", "b"}, 64, "exclude each other"},
		{[]string{"status", "--nonsense"}, 64, "--nonsense"},
		{[]string{"status", ""}, 64, "empty"},
		{[]string{"status", strings.Repeat("x", 1025)}, 64, "1024"},
		{[]string{"status", "\xff"}, 64, "UTF-8"},
		{[]string{"status", "--url", "memory:"}, 64, "one process"},
		{[]string{"status", "--url", "nonsense:", "a"}, 64, "nonsense"},
		{[]string{"status", "--url", "redis://127.0.0.1:1?speed=high"}, 64, "speed"},
		{[]string{"status", "--url", "redis://u:secret@127.0.0.1:1", "a"}, 69, "refused"},
		{[]string{"status", "--url", "file:///nowhere/at/all", "a"}, 69, "/nowhere/at/all"},
		{[]string{"status", "--url", "postgres://u:secret@127.0.0.1:1/db?exact=true", "x"}, 69, "numbers"},
		{[]string{"break"}, 64, "name is missing"},
		{[]string{"break", "--yes", "a", "b"}, 64, "one lock name"},
		{[]string{"break", "--yes", strings.Repeat("x", 1025)}, 64, "1024"},
		{[]string{"break", "a"}, 64, "--yes"},
		{[]string{"break", "--yes", "--url", "memory:", "a"}, 64, "one process"},
		{[]string{"break", "--yes", "--url", "redis://u:secret@127.0.0.1:1", "a"}, 69, "refused"},
	} {
		t.Run(strings.Join(tt.args, " ")[:min(40, len(strings.Join(tt.args, " ")))], func(t *testing.T) {
			t.Parallel()
			refuses(t, folder(t), tt.code, tt.line, tt.args...)
		})
	}
}

func TestWho(t *testing.T) {
	t.Parallel()
	const id = "0123456789abcdef0123456789abcdef:"
	for _, tt := range []struct {
		st   driver.Status
		want string
	}{
		{driver.Status{}, "nobody"},
		{driver.Status{Held: true, Owner: id + "web1/4711/deploy/0a0b0c0d"}, "web1, pid 4711, deploy"},
		{driver.Status{Held: true, Owner: id + "web1/4711/deploy/0a0b0c0d", Foreign: true}, "foreign: " + id + "web1/4711/deploy/0a0b0c0d"},
		{driver.Status{Held: true, Owner: id + "\x1b[2J/4711/de\nploy/0a0b0c0d"}, `"\x1b[2J", pid 4711, "de\nploy"`},
		{driver.Status{Held: true, Owner: id + "web1/x/deploy/0a0b0c0d"}, id + "web1/x/deploy/0a0b0c0d"},
		{driver.Status{Held: true, Owner: id + "another form"}, id + "another form"},
		{driver.Status{Held: true, Foreign: true}, "foreign, unnamed"},
		{driver.Status{Held: true, Foreign: true, Owner: "\x1b[2J\xff"}, `foreign: "\x1b[2J\xff"`},
		{driver.Status{Held: true, Foreign: true, Owner: strings.Repeat("ä", 1000)}, "foreign: " + strings.Repeat("ä", 100) + "…"},
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
	require.NoError(t, writeTable(&b, []driver.Status{{Name: "a"}, {Name: strings.Repeat("ä", 512)}}))
	lines := strings.Split(b.String(), "\n")
	require.Regexp(t, "^a  +nobody ", lines[1])
	require.Regexp(t, "^ä{59}…  nobody ", lines[2])
	require.Less(t, len(lines[1]), 150)
}
