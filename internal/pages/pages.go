// Package pages keeps rendered text, such as tables of cases, in the pages of documentation. It is for tests only.
package pages

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what tests render into the pages of docs/ (with go test -p 1: several packages may write one page)")

// Holds fails t unless the page docs/NAME has the rendered text between its two comments "The table of WHAT: …" and "end of the table of WHAT". With the
// flag -update it writes the text there.
func Holds(t testing.TB, name, what, rendered string) {
	t.Helper()
	Is(t, name, filled(t, name, what, rendered))
}

// Write writes the rendered text to its place, whatever the flags say.
func Write(t testing.TB, name, what, rendered string) {
	t.Helper()
	write(t, name, filled(t, name, what, rendered))
}

// Is fails t unless the file docs/NAME is the rendered text. With the flag -update it writes it.
func Is(t testing.TB, name, rendered string) {
	t.Helper()
	if *update {
		write(t, name, rendered)
	} else if Read(t, name) != rendered {
		t.Fatalf("docs/%s has changed; write it anew: go test -p 1 PACKAGE -run %s -update", name, t.Name())
	}
}

// Before is what the page says before the rendered text.
func Before(t testing.TB, name, what string) string {
	t.Helper()
	before, _, _ := strings.Cut(Read(t, name), begin(what))
	return before
}

// Read is what the file docs/NAME says.
func Read(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(file(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(file(t, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func begin(what string) string { return "<!-- The table of " + what + ":" }

// filled is the page with the rendered text in its place.
func filled(t testing.TB, name, what, rendered string) string {
	t.Helper()
	before, rest, begins := strings.Cut(Read(t, name), begin(what))
	comment, rest, _ := strings.Cut(rest, "\n")
	end := "<!-- end of the table of " + what + " -->\n"
	_, after, ends := strings.Cut(rest, end)
	if !begins || !ends {
		t.Fatalf("docs/%s has no place for the table of %s", name, what)
	}
	return before + begin(what) + comment + "\n\n" + strings.TrimSpace(rendered) + "\n\n" + end + after
}

// file is the path of docs/NAME in the module in which the test runs.
func file(t testing.TB, name string) string {
	t.Helper()
	dir, err := os.Getwd()
	for err == nil && dir != filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "docs", name)
		}
		dir = filepath.Dir(dir)
	}
	t.Fatal("the test does not run inside a module")
	return ""
}
