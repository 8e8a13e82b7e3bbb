package libraries_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance/exhibits/libraries"
)

var update = flag.Bool("update", false, "write the tables into docs/testing.md")

const (
	page       = "../../../docs/testing.md"
	tableBegin = "<!-- The table of libraries: go test ./conformance/... -run TestTable -update -->\n"
	tableEnd   = "<!-- end of the table of libraries -->\n"
)

// The table of other projects' bugs in docs/testing.md is that of the exhibits.
func TestTable(t *testing.T) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(text), tableBegin)
	require.True(t, ok, "%s has no place for the table", page)
	_, after, ok := strings.Cut(rest, tableEnd)
	require.True(t, ok, "%s has no end of the table", page)
	var b strings.Builder
	b.WriteString("\n| bug | whose | what is broken | on | caught by |\n|---|---|---|---|---|\n")
	for _, x := range libraries.All() {
		fmt.Fprintf(&b, "| %s | [%s](%s) | %s | %s | `%s` |\n", x.Name, x.Library, x.Reference, x.Is, x.Server, strings.Join(x.CaughtBy, "`, `"))
	}
	b.WriteByte('\n')
	want := before + tableBegin + b.String() + tableEnd + after
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(want), 0o644))
		return
	}
	require.True(t, want == string(text), "the table of libraries has changed: go test ./conformance/... -run TestTable -update")
}
