package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	noticeID  = regexp.MustCompile(`(?:\bID: +|const id\b[^"\n]*|\bwarn\()"([a-z-]+)"`)
	noticeRow = regexp.MustCompile("(?m)^\\|`([a-z-]+)`\\|([^|]+)\\|([^|]+)\\|(.+)\\|$")
)

// docs/doctor.md lists every notice, each once, and with it at least the backends whose own code gives it.
func TestDoctorPageListsEveryNotice(t *testing.T) {
	page, err := os.ReadFile("../../docs/doctor.md")
	require.NoError(t, err)
	listed := make(map[string]string)
	for _, row := range noticeRow.FindAllStringSubmatch(string(page), -1) {
		require.Empty(t, listed[row[1]], "%s is listed twice", row[1])
		listed[row[1]] = row[2]
	}
	require.Equal(t, "every one", listed["latency"], "doctor measures it itself")

	given := map[string]bool{"latency": true}
	files, err := filepath.Glob("../../backend/*/*.go")
	require.NoError(t, err)
	for _, pkg := range []string{"notice", "redischeck"} { // which several backends use
		shared, err := filepath.Glob("../../internal/" + pkg + "/*.go")
		require.NoError(t, err)
		require.NotEmpty(t, shared)
		files = append(files, shared...)
	}
	for _, file := range files {
		folder := filepath.Dir(file)
		if strings.HasSuffix(file, "_test.go") || folder == "../../backend/nats" { // a module of its own
			continue
		}
		text, err := os.ReadFile(filepath.Clean(file))
		require.NoError(t, err)
		for _, m := range noticeID.FindAllStringSubmatch(string(text), -1) {
			given[m[1]] = true
			require.Contains(t, listed, m[1], "docs/doctor.md, %s", file)
			if filepath.Base(filepath.Dir(folder)) == "backend" {
				require.Contains(t, listed[m[1]], filepath.Base(folder), "docs/doctor.md, %s", m[1])
			}
		}
	}
	for id := range listed {
		require.True(t, given[id], "docs/doctor.md lists %s, which no backend finds", id)
	}
}
