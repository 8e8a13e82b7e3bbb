package conformance

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the tables into docs/testing.md")

const (
	page       = "../docs/testing.md"
	tableBegin = "<!-- The table of cases: go test ./conformance/... -run TestTable -update -->\n"
	tableEnd   = "<!-- end of the table of cases -->\n"
)

// The table of cases in docs/testing.md is that of the suite.
func TestTable(t *testing.T) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(text), tableBegin)
	require.True(t, ok, "%s has no place for the table", page)
	_, after, ok := strings.Cut(rest, tableEnd)
	require.True(t, ok, "%s has no end of the table", page)
	want := before + tableBegin + table() + tableEnd + after
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(want), 0o644))
		return
	}
	require.True(t, want == string(text), "the table of cases has changed: go test ./conformance/... -run TestTable -update")
}

// Every group is explained on the page.
func TestGroupsAreExplained(t *testing.T) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	before, _, _ := strings.Cut(string(text), tableBegin)
	for _, c := range Cases() {
		require.True(t, strings.Contains(before, "| `"+c.Group+"` |"), "%s does not explain the group %s", page, c.Group)
	}
}

// table is the table of cases in Markdown.
func table() string {
	var b strings.Builder
	b.WriteString("\n| case | rule | needs | quick |\n|---|---|---|---|\n")
	for _, c := range Cases() {
		needs := make([]string, len(c.Needs))
		for i, n := range c.Needs {
			needs[i] = string(n)
		}
		quick := ""
		if c.Quick {
			quick = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", c.ID(), strings.ReplaceAll(c.Rule, "|", "\\|"), strings.Join(needs, ", "), quick)
	}
	b.WriteByte('\n')
	return b.String()
}
