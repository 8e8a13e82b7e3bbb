package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// notices are what the packages of backends, and what they share, can find: the IDs, by package and by function.
type notices map[string]map[string][]string

var (
	noticeID     = regexp.MustCompile(`\bID: +"([a-z-]+)"`)
	sharedNotice = regexp.MustCompile(`\b(notice|redischeck)\.([A-Z]\w*)`)
	function     = regexp.MustCompile(`(?m)^func (?:\([^)]*\) )?(\w+)`)
)

func (n notices) read(t *testing.T, dir string) {
	t.Helper()
	n[dir] = make(map[string][]string)
	files, err := filepath.Glob(filepath.Join("..", "..", dir, "*.go"))
	require.NoError(t, err)
	require.NotEmpty(t, files, dir)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(filepath.Clean(file))
		require.NoError(t, err)
		for i, part := range strings.Split(string(text), "\nfunc ") {
			name := ""
			if i > 0 {
				name = function.FindStringSubmatch("func " + part)[1]
			}
			for _, m := range noticeID.FindAllStringSubmatch(part, -1) {
				n[dir][name] = append(n[dir][name], m[1])
			}
			for _, m := range sharedNotice.FindAllStringSubmatch(part, -1) {
				n[dir][name] = append(n[dir][name], "internal/"+m[1]+"."+m[2]) // see of
			}
		}
	}
}

// of are the IDs that a package can find, those of what it calls included.
func (n notices) of(dir string) []string {
	ids := make(map[string]bool)
	var add func(all []string)
	add = func(all []string) {
		for _, id := range all {
			switch shared, f, called := strings.Cut(id, "."); {
			case !called:
				ids[id] = true
			default:
				add(n[shared][f])
			}
		}
	}
	for _, all := range n[dir] {
		add(all)
	}
	var sorted []string
	for id := range ids {
		sorted = append(sorted, id)
	}
	slices.Sort(sorted)
	return sorted
}

// elsewhere are notices about what cannot be had here: a server's system without what Linux has, FUSE, an etcd that hides its members or state.
var elsewhere = []string{"dead-clients", "file-system", "members", "status"}

// The page lists every notice, with the backends that give it, and a test mentions it.
func TestDoctorPageListsEveryNotice(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "doctor.md"))
	require.NoError(t, err)
	listed := make(map[string]string)
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| ([^|]+) \\| ([^|]+) \\| (.+) \\|$").FindAllStringSubmatch(string(page), -1) {
		require.Empty(t, listed[row[1]], "%s is listed twice", row[1])
		listed[row[1]] = strings.TrimSpace(row[2])
	}

	require.Equal(t, "every one", listed["latency"], "doctor measures it itself")
	delete(listed, "latency")
	found := make(notices)
	for _, dir := range []string{"internal/notice", "internal/redischeck"} {
		found.read(t, dir)
	}
	backends := []string{"redis", "redlock", "etcd", "zookeeper", "postgres", "mysql", "file", "memory"}
	by := make(map[string][]string)
	for _, b := range backends {
		found.read(t, "backend/"+b)
		for _, id := range found.of("backend/" + b) {
			by[id] = append(by[id], b)
		}
	}
	for id, all := range by {
		require.Equal(t, strings.Join(all, ", "), listed[id], "docs/doctor.md, %s", id)
		delete(listed, id)
	}
	require.Empty(t, listed, "docs/doctor.md lists what no backend finds")

	var tests strings.Builder
	for _, pattern := range []string{"backend/*/*_test.go", "internal/notice/*_test.go", "internal/redischeck/*_test.go"} {
		files, err := filepath.Glob(filepath.Join("..", "..", pattern))
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(filepath.Clean(file))
			require.NoError(t, err)
			tests.Write(text)
		}
	}
	for id := range by {
		if slices.Contains(elsewhere, id) {
			continue
		}
		require.True(t, regexp.MustCompile(`["\[](\w+ )?`+id+`[ ?",\]]`).MatchString(tests.String()), "no test mentions %s", id)
	}
}
