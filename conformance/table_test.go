package conformance

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/pages"
)

// The table of cases in docs/testing.md is that of the suite.
func TestTable(t *testing.T) {
	pages.Holds(t, "testing.md", "cases", table())
}

// Every group is explained on the page.
func TestGroupsAreExplained(t *testing.T) {
	before, _, _ := strings.Cut(pages.Read(t, "testing.md"), "<!-- The table of cases:")
	for _, c := range Cases() {
		require.True(t, strings.Contains(before, "| `"+c.Group+"` |"), "docs/testing.md does not explain the group %s", c.Group)
	}
}

// table is the table of cases in Markdown.
func table() string {
	var b strings.Builder
	b.WriteString("\n| case | rule | needs | quick |\n|---|---|---|---|\n")
	for _, c := range Cases() {
		quick := ""
		if c.Quick {
			quick = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", c.ID(), strings.ReplaceAll(c.Rule, "|", "\\|"), strings.Join(c.Needs, ", "), quick)
	}
	b.WriteByte('\n')
	return b.String()
}
