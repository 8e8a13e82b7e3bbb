package house

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance"
)

var readModule = sync.OnceValues(func() (*tree, error) { return readTree(os.DirFS("../..")) })

// wholeTree returns the tree of this module.
func wholeTree(t *testing.T) *tree {
	t.Helper()
	here, err := readModule()
	require.NoError(t, err)
	return here
}

// The module follows the rules.
func TestHouse(t *testing.T) {
	here := wholeTree(t)
	require.True(t, here.has("driver", "driver.go"), "the test does not run inside the module")
	require.Greater(t, len(here.files), 20)
	if lines := here.violations(); len(lines) > 0 {
		t.Errorf("%d violations of the repository's rules:\n%s", len(lines), strings.Join(lines, "\n"))
	}
}

// Every case and test that docs/guarantees.md names exists.
func TestGuaranteesNameWhatExists(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "guarantees.md"))
	require.NoError(t, err)
	known := make(map[string]bool)
	covers := make(map[string]int)
	for _, c := range conformance.Cases() {
		known[c.ID()] = true
		covers[c.Group+"/*"]++
	}
	nested, err := readTree(os.DirFS(filepath.Join(root, "backend", "nats"))) // a nested module
	require.NoError(t, err)
	tests := make(map[string]bool)
	for _, f := range slices.Concat(wholeTree(t).files, nested.files) {
		for _, d := range f.syntax.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				tests[f.Name.Name] = true
			}
		}
	}
	cases := 0
	for _, word := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(string(page), -1) {
		switch name := word[1]; {
		case strings.HasSuffix(name, "/*"):
			cases += covers[name]
			require.NotZero(t, covers[name], "docs/guarantees.md names the group %s, which does not exist", name)
		case regexp.MustCompile(`^[a-z-]+/[a-z0-9-]+$`).MatchString(name):
			cases++
			require.True(t, known[name], "docs/guarantees.md names the case %s, which does not exist", name)
		case strings.HasPrefix(name, "Test"):
			require.True(t, tests[name], "docs/guarantees.md names %s, which does not exist", name)
		}
	}
	require.Greater(t, cases, 150)
}

// docs/testing.md lists the client versions of scripts/clients.sh, and go.mod requires the oldest of each.
func TestClientVersions(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join("..", "..", name))
		require.NoError(t, err)
		return string(text)
	}
	script, page, mod := read("scripts/clients.sh"), read("docs/testing.md"), read("go.mod")
	table := regexp.MustCompile(`(?m)^(\S+) +(v\S+) +(v\S+)$`).FindAllStringSubmatch(script, -1)
	require.Len(t, table, 5)
	for _, c := range table {
		require.Contains(t, page, "| `"+c[1]+"` | "+c[2]+" | "+c[3]+" |")
		require.Contains(t, mod, "\t"+c[1]+" "+c[2]+"\n", "go.mod must require the oldest tested version")
	}
}

// The pages stay short: all of them together, and README.md alone. Each table cell counts its words separately; code does not count.
func TestWords(t *testing.T) {
	require.Equal(t, 4, words("|a b|c|\n|---|:-:|\n- d\n```go\nx := 1\n```\n"))
	all := 0
	for _, page := range wholeTree(t).pages {
		all += words(page.text)
		require.False(t, page.file == "README.md" && len(strings.Fields(page.text)) > 900, "README.md has more than 900 words, including its code")
	}
	require.Greater(t, all, 10_000)
	require.LessOrEqual(t, all, 45_000, "cut what readers do not need before you add")
}

var code = regexp.MustCompile("(?ms)^```.*?^```")

// words counts what stands between spaces and bars, outside code blocks. Dashes alone do not count: bullets, and the line below a table's head.
func words(text string) (n int) {
	text = code.ReplaceAllString(text, "")
	for _, word := range strings.Fields(strings.ReplaceAll(text, "|", " ")) {
		if strings.Trim(word, "-:") != "" {
			n++
		}
	}
	return n
}
