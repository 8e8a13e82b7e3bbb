package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	noticeID = regexp.MustCompile(`(?:\bID: +|const id\b[^"\n]*|\bwarn\()"([a-z-]+)"`)
	shared   = regexp.MustCompile(`\b(?:notice|redischeck)\.[A-Z]\w*`)
	function = regexp.MustCompile(`^(?:\([^)]*\) )?(\w+)`)
)

// texts is the text of the files that match patterns below the root of the module: its tests, or what is no test.
func texts(t *testing.T, tests bool, patterns ...string) string {
	t.Helper()
	var all strings.Builder
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join("..", "..", pattern))
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") == tests {
				text, err := os.ReadFile(filepath.Clean(file))
				require.NoError(t, err)
				all.Write(text)
			}
		}
	}
	return all.String()
}

// noticesIn are the IDs in a text, and in the functions that it calls of those that backends share: bodies has these by name.
func noticesIn(text string, bodies map[string]string) []string {
	var ids, called []string
	for i := 0; i <= len(called); i++ {
		for _, m := range noticeID.FindAllStringSubmatch(text, -1) {
			ids = append(ids, m[1])
		}
		for _, call := range shared.FindAllString(text, -1) {
			if !slices.Contains(called, call) {
				called = append(called, call)
			}
		}
		if i < len(called) {
			text = bodies[called[i]]
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// elsewhere are notices about what cannot be had here: a server's system without what Linux has, FUSE, an etcd that hides its members or state.
var elsewhere = []string{"dead-clients", "file-system", "members", "status"}

// The page lists every notice, with the backends that give it, and a test mentions it.
func TestDoctorPageListsEveryNotice(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "doctor.md"))
	require.NoError(t, err)
	listed := make(map[string]string)
	for _, row := range regexp.MustCompile("(?m)^\\|`([a-z-]+)`\\|([^|]+)\\|([^|]+)\\|(.+)\\|$").FindAllStringSubmatch(string(page), -1) {
		require.Empty(t, listed[row[1]], "%s is listed twice", row[1])
		listed[row[1]] = strings.TrimSpace(row[2])
	}

	require.Equal(t, "every one", listed["latency"], "doctor measures it itself")
	delete(listed, "latency")
	bodies := make(map[string]string)
	for _, pkg := range []string{"notice", "redischeck"} {
		for _, body := range strings.Split(texts(t, false, "internal/"+pkg+"/*.go"), "\nfunc ")[1:] {
			bodies[pkg+"."+function.FindStringSubmatch(body)[1]] = body
		}
	}
	by := make(map[string][]string)
	for _, b := range []string{"redis", "redlock", "etcd", "zookeeper", "postgres", "mysql", "table", "file", "memory"} {
		for _, id := range noticesIn(texts(t, false, "backend/"+b+"/*.go"), bodies) {
			by[id] = append(by[id], b)
		}
	}
	for id, all := range by {
		require.Equal(t, strings.Join(all, ", "), listed[id], "docs/doctor.md, %s", id)
		delete(listed, id)
	}
	require.Empty(t, listed, "docs/doctor.md lists what no backend finds")

	tests := texts(t, true, "backend/*/*_test.go", "internal/notice/*_test.go", "internal/redischeck/*_test.go")
	ids := slices.Collect(maps.Keys(by))
	mentioned := slices.Clone(elsewhere)
	for _, m := range regexp.MustCompile(`["\[](?:\w+ )?(`+strings.Join(ids, "|")+`)[ ?",\]]`).FindAllStringSubmatch(tests, -1) {
		mentioned = append(mentioned, m[1])
	}
	require.Subset(t, mentioned, ids, "no test mentions them")
}
