package articles_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance/exhibits/articles"
)

var update = flag.Bool("update", false, "write the tables into docs/testing.md")

const (
	page       = "../../../docs/testing.md"
	tableBegin = "<!-- The table of articles: go test ./conformance/... -run TestTable -update -->\n"
	tableEnd   = "<!-- end of the table of articles -->\n"
)

// The table of the articles' locks in docs/testing.md is that of the exhibits.
func TestTable(t *testing.T) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(text), tableBegin)
	require.True(t, ok, "%s has no place for the table", page)
	_, after, ok := strings.Cut(rest, tableEnd)
	require.True(t, ok, "%s has no end of the table", page)
	var b strings.Builder
	b.WriteString("\n| exhibit | hazard | article | what is broken | caught by |\n|---|---|---|---|---|\n")
	for _, x := range articles.All() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | `%s` |\n", x.Name, x.Hazard, x.Article, x.Is, strings.Join(x.CaughtBy, "`, `"))
	}
	b.WriteString("\nSound, and made to pass what catches the others:\n\n| lock | article | how it is sound |\n|---|---|---|\n")
	for _, x := range articles.Sound() {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", x.Name, x.Article, x.Is)
	}
	b.WriteByte('\n')
	want := before + tableBegin + b.String() + tableEnd + after
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(want), 0o644))
		return
	}
	require.True(t, want == string(text), "the table of articles has changed: go test ./conformance/... -run TestTable -update")
}

// Every hazard of an exhibit is in the page's list.
func TestHazardsAreListed(t *testing.T) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	before, _, _ := strings.Cut(string(text), tableBegin)
	for _, x := range articles.All() {
		require.True(t, x.Hazard == "" || strings.Contains(before, "| "+x.Hazard+" |"), "%s does not list %s", page, x.Hazard)
	}
}
