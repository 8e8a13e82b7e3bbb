package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// notices are what the packages of backends, and what they share, can find: the IDs, by package and by function.
type notices map[string]map[string][]string

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
		syntax, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		for _, d := range syntax.Decls {
			name := ""
			if f, ok := d.(*ast.FuncDecl); ok {
				name = f.Name.Name
			}
			ast.Inspect(d, func(node ast.Node) bool {
				switch x := node.(type) {
				case *ast.KeyValueExpr:
					key, _ := x.Key.(*ast.Ident)
					value, _ := x.Value.(*ast.BasicLit)
					if key != nil && key.Name == "ID" && value != nil {
						id, _ := strconv.Unquote(value.Value)
						n[dir][name] = append(n[dir][name], id)
					}
				case *ast.SelectorExpr:
					if of, ok := x.X.(*ast.Ident); ok && (of.Name == "notice" || of.Name == "redischeck") {
						n[dir][name] = append(n[dir][name], "internal/"+of.Name+"."+x.Sel.Name) // see of
					}
				}
				return true
			})
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
