// Package pages keeps rendered text, such as tables of cases, in documentation pages. It is for tests only.
package pages

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what tests render into the pages of docs/ (with go test -p 1: several packages may write one page)")

// Holds fails t unless the page docs/NAME has the rendered text between its comments "The table of WHAT: …" and "end of the table of WHAT". The flag
// -update writes the text there.
func Holds(t testing.TB, name, what, rendered string) {
	t.Helper()
	place := regexp.MustCompile(`(?s)(<!-- The table of ` + what + `:[^\n]*\n).*(<!-- end of the table of ` + what + ` -->\n)`)
	page := Read(t, name)
	at := place.FindStringSubmatchIndex(page)
	if at == nil {
		t.Fatalf("docs/%s has no place for the table of %s", name, what)
	}
	Is(t, name, page[:at[3]]+"\n"+strings.TrimSpace(rendered)+"\n\n"+page[at[4]:])
}

// Is fails t unless the file docs/NAME is the rendered text. The flag -update writes it.
func Is(t testing.TB, name, rendered string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file(name), []byte(rendered), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if Read(t, name) != rendered {
		t.Fatalf("docs/%s is out of date; update it: go test -p 1 PACKAGE -run %s -update", name, t.Name())
	}
}

// Read returns the content of docs/NAME.
func Read(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(file(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// file is the path of docs/NAME: docs is beside the running test, or above it.
func file(name string) string {
	dir := "docs"
	for _, err := os.Stat(dir); err != nil && len(dir) < 30; _, err = os.Stat(dir) {
		dir = filepath.Join("..", dir)
	}
	return filepath.Join(dir, name)
}
