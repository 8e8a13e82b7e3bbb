package house

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance"
)

var repository = os.DirFS("../..")

// allFiles returns the repository's files with one of these extensions.
func allFiles(t *testing.T, extensions ...string) []file {
	t.Helper()
	return slices.DeleteFunc(readFiles(t, repository), func(f file) bool { return !slices.Contains(extensions, path.Ext(f.path)) })
}

// read returns the text of a file of the repository.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := fs.ReadFile(repository, name)
	require.NoError(t, err)
	return string(text)
}

// The Go files of the root module follow the rules, for every system, and each rule finds the violation planted for it.
func TestRules(t *testing.T) {
	files := slices.DeleteFunc(allFiles(t, ".go"), func(f file) bool { return f.nested })
	all := allRules(backends(repository))
	for _, r := range all {
		name, text, _ := strings.Cut(r.planted, " ")
		if r.code == "" {
			text = fmt.Sprintf("import _ %q", regexp.MustCompile(`^\.`).ReplaceAllString(text, module))
		}
		require.Len(t, r.broken(file{path: name, text: "package x\n" + text}, text), 1, "it must find %s", r.planted)
	}
	for _, f := range files {
		code := comment.ReplaceAllString(f.text, "")
		for _, r := range all {
			for _, line := range r.broken(f, code) {
				t.Error(line)
			}
		}
	}
}

// backends returns the folders of the root module's backends.
func backends(fsys fs.FS) []string {
	all, _ := fs.Glob(fsys, "backend/*")
	return slices.DeleteFunc(all, func(dir string) bool { return dir == "backend/all" || exists(fsys, dir+"/go.mod") })
}

var (
	linkTarget      = regexp.MustCompile(`\]\(([^)\s]+)[^)]*\)`)
	decisionMention = regexp.MustCompile(`docs/decisions/[0-9]{4}[a-z0-9-]*\.md`)
)

// missing returns what backends and adapters lack (see CONTRIBUTING.md), and what pages and comments refer to although it does not exist.
func missing(fsys fs.FS, files []file) (lines []string) {
	need := func(where, name string) {
		if !exists(fsys, name) {
			lines = append(lines, where+" needs "+name)
		}
	}
	shipped, _ := fs.ReadFile(fsys, "backend/all/all.go")
	for _, dir := range backends(fsys) {
		for _, name := range []string{dir + "/doc.go", dir + "/conformance_test.go", dir + "/example_test.go", "docs/backends/" + path.Base(dir) + ".md"} {
			need(dir, name)
		}
		if !strings.Contains(string(shipped), `_ "`+module+"/"+dir+`"`) {
			lines = append(lines, "backend/all/all.go does not import "+dir+", so the command does not offer it")
		}
	}
	adapters, _ := fs.Glob(fsys, "adapters/*")
	for _, dir := range adapters {
		need(dir, dir+"/go.mod")
		need(dir, dir+"/README.md")
	}
	for _, f := range files {
		if path.Ext(f.path) == ".md" {
			for _, link := range linkTarget.FindAllStringSubmatch(f.text, -1) {
				if target, _, _ := strings.Cut(link[1], "#"); target != "" && !strings.Contains(target, ":") {
					need(f.path, path.Join(path.Dir(f.path), target))
				}
			}
			continue
		}
		for _, decision := range decisionMention.FindAllString(f.text, -1) {
			need(f.path, decision)
		}
		if !f.nested && strings.HasPrefix(f.path, "backend/") && path.Base(f.path) == "conformance_test.go" {
			if !strings.Contains(comment.ReplaceAllString(f.text, ""), "conformance.Test(") {
				lines = append(lines, f.path+" does not run the suite")
			}
			if strings.Count(f.text, "\n") >= 40 {
				lines = append(lines, f.path+" must be under 40 lines: servers and faults come from internal/lab")
			}
		}
	}
	return lines
}

// Every backend has its files, runs the suite and is in the command. Adapters are modules. Pages and comments refer to what exists.
func TestNothingIsMissing(t *testing.T) {
	require.Greater(t, len(backends(repository)), 8)
	require.Empty(t, missing(repository, allFiles(t, ".md", ".go", ".sh")))
	planted := fstest.MapFS{
		"backend/new/conformance_test.go": {Data: []byte("package new // conformance.Test(\n" + strings.Repeat("\n", 40))},
		"backend/new/new.go":              {Data: []byte("package new // docs/decisions/" + "0099-new.md\n")},
		"adapters/cron/go.mod":            {},
		"README.md":                       {Data: []byte("[a](adapters/cron#x) [b](https://x/y.md) [c](docs/x.md)")},
	}
	require.Equal(t, []string{
		"backend/new needs backend/new/doc.go", "backend/new needs backend/new/example_test.go", "backend/new needs docs/backends/new.md",
		"backend/all/all.go does not import backend/new, so the command does not offer it", "adapters/cron needs adapters/cron/README.md",
		"README.md needs docs/x.md", "backend/new/conformance_test.go does not run the suite",
		"backend/new/conformance_test.go must be under 40 lines: servers and faults come from internal/lab", "backend/new/new.go needs docs/decisions/" + "0099-new.md",
	}, missing(planted, readFiles(t, planted)))
}

// Every case and test that docs/guarantees.md names exists. It names the groups of each promise, docs/testing.md the others.
func TestGuaranteesNameWhatExists(t *testing.T) {
	page := read(t, "docs/guarantees.md")
	_, promises, _ := strings.Cut(page, "\n## Proof\n")
	_, others, _ := strings.Cut(read(t, "docs/testing.md"), "\n## The cases\n")
	known := make(map[string]bool)
	for _, c := range conformance.Cases() {
		known[c.ID()], known[c.Group+"/*"] = true, true
		require.True(t, strings.Contains(promises, "`"+c.Group+"/") || strings.Contains(others, "`"+c.Group+"`"), c.Group)
	}
	for _, f := range allFiles(t, ".go") {
		for _, test := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(f.text, -1) {
			known[test[1]] = true
		}
	}
	named := regexp.MustCompile("`(Test[^`\n]*|[a-z-]+/(?:[a-z0-9-]+|\\*))`").FindAllStringSubmatch(page, -1)
	require.Greater(t, len(named), 100)
	for _, name := range named {
		require.True(t, known[name[1]], "docs/guarantees.md names %s, which does not exist", name[1])
	}
}

// README.zh-CN.md is README.md in Chinese: change both together. No test can read both; this one compares code, headings, table rows and links.
func TestChineseReadme(t *testing.T) {
	shape := func(name string) []string {
		text := strings.ReplaceAll(read(t, name), "README.zh-CN.md", "README.md") // each links to the other
		var all []string
		for _, block := range code.FindAllString(text, -1) {
			all = append(all, regexp.MustCompile(`(?m)\s*(//|#).*$`).ReplaceAllString(block, ""))
		}
		text = code.ReplaceAllString(text, "")
		links := linkTarget.FindAllString(text, -1)
		slices.Sort(links)
		return append(append(all, links...), fmt.Sprint(strings.Count(text, "\n#"), " headings, ", strings.Count(text, "\n|"), " rows"))
	}
	require.Equal(t, shape("README.md"), shape("README.zh-CN.md"))
	require.Greater(t, len(shape("README.md")), 20)
}

// docs/testing.md lists the client versions of scripts/clients.sh, and go.mod requires the oldest of each.
func TestClientVersions(t *testing.T) {
	script, page, mod := read(t, "scripts/clients.sh"), read(t, "docs/testing.md"), read(t, "go.mod")
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
	for _, page := range allFiles(t, ".md") {
		all += words(page.text)
		require.False(t, page.path == "README.md" && len(strings.Fields(page.text)) > 900, "README.md has more than 900 words, including its code")
	}
	require.Greater(t, all, 10_000)
	require.LessOrEqual(t, all, 45_000, "cut what readers do not need before you add")
}

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
