//go:build linux || darwin

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/pages"
)

// The layout of doctor's output.
func TestDiagnosisText(t *testing.T) {
	caps := driver.Capabilities{Backend: "redis", Ends: driver.EndsTTL}
	d := newDiagnosis("redis://h:6379/2", caps, driver.Notice{ID: "eviction-policy",
		Text:   "The eviction policy is allkeys-lru: when its memory is full, the server can forget locks that are held.",
		Remedy: "Set maxmemory-policy noeviction, or keep locks on a server of their own."},
		driver.Notice{ID: "settings", Unknown: true, Text: "The server does not let us use CONFIG GET, so its timeouts are not known.", Remedy: "Allow it (+config|get)."})
	var text strings.Builder
	require.NoError(t, writeDiagnosis(&text, d))
	require.Equal(t, `redis://h:6379/2 (redis)
A lock is released after at most 15s of silence.

Risks to locks

eviction-policy
  The eviction policy is allkeys-lru: when its memory is full, the server can forget locks that are held.
  Remedy: Set maxmemory-policy noeviction, or keep locks on a server of their own.

Not checked

settings
  The server does not let us use CONFIG GET, so its timeouts are not known.
  Remedy: Allow it (+config|get).

Risks found: 1; not checked: 1.
`, text.String())
}

func TestDoctorFiles(t *testing.T) {
	t.Parallel()
	stdout, stderr := ran(t, 0, folder(t), "doctor", "--json")
	require.Empty(t, stderr)
	require.Regexp(t, `^{\s+"url": "file:///[^"]+",\s+"backend": "file",\s+"endangers": \[\],\s+"unknown": \[\]\s+}\n$`, stdout)
	for url, ends := range map[string]string{folder(t): "ends with its process", "memory:": "is released after at most 15s of silence"} {
		stdout, _ = ran(t, 0, url, "doctor")
		require.Regexp(t, `^\S+ \([a-z]+\)\nA lock `+ends+`\.\n\nNo risks found\.\n$`, stdout)
	}
}

var (
	noticeID  = regexp.MustCompile(`(?:\bID: +|const id\b[^"\n]*|\bwarn\()"([a-z-]+)"`)
	noticeRow = regexp.MustCompile("(?m)^\\|`([a-z-]+)`\\|")
)

// docs/doctor.md lists every notice once, and no other.
func TestDoctorPageListsEveryNotice(t *testing.T) {
	listed, given := make(map[string]bool), make(map[string]bool)
	for _, row := range noticeRow.FindAllStringSubmatch(pages.Read(t, "doctor.md"), -1) {
		require.False(t, listed[row[1]], "%s is listed twice", row[1])
		listed[row[1]] = true
	}
	for _, where := range []string{"backend/*", "internal/notice", "internal/redisscript"} {
		files := peer.Must(filepath.Glob("../../" + where + "/*.go"))(t)
		require.NotEmpty(t, files)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") || strings.Contains(file, "backend/nats/") { // a module of its own
				continue
			}
			text := peer.Must(os.ReadFile(filepath.Clean(file)))(t)
			for _, m := range noticeID.FindAllStringSubmatch(string(text), -1) {
				given[m[1]] = true
			}
		}
	}
	require.Equal(t, given, listed)
}
