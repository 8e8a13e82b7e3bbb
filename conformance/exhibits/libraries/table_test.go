package libraries_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lockport/lockport/conformance/exhibits/articles"
	"github.com/lockport/lockport/conformance/exhibits/libraries"
	"github.com/lockport/lockport/internal/pages"
)

// The table of other projects' bugs in docs/testing.md is that of the exhibits.
func TestTable(t *testing.T) {
	var b strings.Builder
	b.WriteString("\n| bug | whose | what is broken | on | caught by |\n|---|---|---|---|---|\n")
	row := func(name, library, reference, is, server string, caughtBy []string) {
		fmt.Fprintf(&b, "| %s | [%s](%s) | %s | %s | `%s` |\n", name, library, reference, is, server, strings.Join(caughtBy, "`, `"))
	}
	for _, x := range libraries.All() {
		row(x.Name, x.Library, x.Reference, x.Is, string(x.Server), x.CaughtBy)
	}
	for _, x := range articles.Libraries() {
		row(x.Name, x.Library, x.Article, x.Is, "redis", x.CaughtBy)
	}
	pages.Holds(t, "testing.md", "libraries", b.String())
}
