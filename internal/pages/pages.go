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
	if *update {
		Write(t, name, what, rendered)
	} else if _, _, is, must, _ := place(t, name, what, rendered); is != must {
		t.Fatalf("the table of %s in docs/%s has changed; write it anew: go test -p 1 PACKAGE -run %s -update", what, name, t.Name())
	}
}

// Write writes the rendered text to its place, whatever the flags say.
func Write(t testing.TB, name, what, rendered string) {
	t.Helper()
	file, before, _, must, after := place(t, name, what, rendered)
	if err := os.WriteFile(file, []byte(before+must+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// place is what stands between the two comments, and what must, and the page around that.
func place(t testing.TB, name, what, rendered string) (file, before, is, must, after string) {
	t.Helper()
	file, before, begin, rest := cut(t, name, what)
	end := "<!-- end of the table of " + what + " -->\n"
	is, after, ok := strings.Cut(rest, end)
	if !ok {
		t.Fatalf("docs/%s has no line %s", name, end)
	}
	return file, before + begin, is, "\n" + strings.TrimSpace(rendered) + "\n\n", end + after
}

// Is fails t unless the file docs/NAME is the rendered text. With the flag -update it writes it.
func Is(t testing.TB, name, rendered string) {
	t.Helper()
	file := filepath.Join(root(t), "docs", name)
	if *update {
		if err := os.WriteFile(file, []byte(rendered), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != rendered {
		t.Fatalf("docs/%s has changed; write it anew: go test -p 1 PACKAGE -run %s -update", name, t.Name())
	}
}

// Read is what the file docs/NAME says.
func Read(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
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
