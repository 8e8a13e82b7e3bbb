package exhibits_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance/exhibits"
)

var update = flag.Bool("update", false, "write the tables into docs/testing.md")

const (
	page       = "../../docs/testing.md"
	tableBegin = "<!-- The table of exhibits: go test ./conformance/... -run TestTable -update -->\n"
	tableEnd   = "<!-- end of the table of exhibits -->\n"
)

// The table of broken locks in docs/testing.md is that of the exhibits.
func TestTable(t *testing.T) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(text), tableBegin)
	require.True(t, ok, "%s has no place for the table", page)
	_, after, ok := strings.Cut(rest, tableEnd)
	require.True(t, ok, "%s has no end of the table", page)
	var b strings.Builder
	b.WriteString("\n| exhibit | what is broken | caught by |\n|---|---|---|\n")
	for _, x := range exhibits.All() {
		fmt.Fprintf(&b, "| %s | %s | `%s` |\n", x.Name, x.Is, strings.Join(x.CaughtBy, "`, `"))
	}
	b.WriteByte('\n')
	want := before + tableBegin + b.String() + tableEnd + after
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(want), 0o644))
		return
	}
	require.True(t, want == string(text), "the table of exhibits has changed: go test ./conformance/... -run TestTable -update")
}
