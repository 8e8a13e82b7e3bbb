// Package pages keeps what tests render, tables of cases for instance, in the pages of documentation. It is for tests alone.
package pages

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what tests render into the pages of docs/ (with go test -p 1: several packages may write one page)")

// Holds fails t unless the page docs/NAME has the rendered text between its two comments "The table of WHAT: …" and "end of the table of
// WHAT". With the flag -update it writes it there instead.
func Holds(t testing.TB, name, what, rendered string) {
	t.Helper()
	file, before, begin, rest := cut(t, name, what)
	end := "<!-- end of the table of " + what + " -->\n"
	is, after, ok := strings.Cut(rest, end)
	if !ok {
		t.Fatalf("docs/%s has no line %s", name, end)
	}
	must := "\n" + strings.TrimSpace(rendered) + "\n\n"
	if *update {
		if err := os.WriteFile(file, []byte(before+begin+must+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if is != must {
		t.Fatalf("the table of %s in docs/%s has changed; write it anew: go test -p 1 PACKAGE -run %s -update", what, name, t.Name())
	}
}

// Before is what the page says before the rendered text.
func Before(t testing.TB, name, what string) string {
	t.Helper()
	_, before, _, _ := cut(t, name, what)
	return before
}

// cut cuts a page where the text begins, behind the comment that says so.
func cut(t testing.TB, name, what string) (file, before, begin, rest string) {
	t.Helper()
	file = filepath.Join(root(t), "docs", name)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), "<!-- The table of "+what+":")
	if !ok {
		t.Fatalf("docs/%s has no place for the table of %s", name, what)
	}
	line, rest, _ := strings.Cut(rest, "\n")
	return file, before, "<!-- The table of " + what + ":" + line + "\n", rest
}

// root is the folder of the module in which the test runs.
func root(t testing.TB) string {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for dir != filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	t.Fatal("the test does not run inside a module")
	return ""
}
