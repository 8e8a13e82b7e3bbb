package articles_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance/exhibits/articles"
	"github.com/lockport/lockport/internal/pages"
)

// The table of the articles' locks in docs/testing.md is that of the exhibits.
func TestTable(t *testing.T) {
	var b strings.Builder
	b.WriteString("\n| exhibit | hazard | article | what is broken | caught by |\n|---|---|---|---|---|\n")
	for _, x := range articles.All() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | `%s` |\n", x.Name, x.Hazard, x.Article, x.Is, strings.Join(x.CaughtBy, "`, `"))
	}
	b.WriteString("\nSound, and made to pass what catches the others:\n\n| lock | article | how it is sound |\n|---|---|---|\n")
	for _, x := range articles.Sound() {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", x.Name, x.Article, x.Is)
	}
	pages.Holds(t, "testing.md", "articles", b.String())
}

// Every hazard of an exhibit is in the page's list.
func TestHazardsAreListed(t *testing.T) {
	before := pages.Before(t, "testing.md", "articles")
	for _, x := range articles.All() {
		require.True(t, x.Hazard == "" || strings.Contains(before, "| "+x.Hazard+" |"), "docs/testing.md does not list %s", x.Hazard)
	}
}
