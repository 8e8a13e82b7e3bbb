//go:build linux || darwin

package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/pages"
)

func TestBackends(t *testing.T) {
	t.Parallel()
	code, stdout, _ := inside(t, "backends")
	require.Equal(t, 0, code)
	for _, s := range lockport.DefaultMux().Schemes() {
		require.Contains(t, stdout, s.Example)
		for _, p := range s.Params {
			require.Regexp(t, `(?m)^ +`+regexp.QuoteMeta(p.Name)+` +`+regexp.QuoteMeta(p.Text)+`$`, stdout)
		}
	}
	for _, row := range capabilityTable(lockport.DefaultMux().Schemes()) {
		require.Regexp(t, `(?m)^`+regexp.QuoteMeta(row[0])+`\n  released on silence by +`+regexp.QuoteMeta(row[1])+`\n(  .*\n)*\n`, stdout)
	}
	require.NotContains(t, stdout, "\t")
}

// The table of promises in README.md shows what the backends state.
func TestTableInReadme(t *testing.T) {
	var text string
	head := [][]string{capabilityColumns, slices.Repeat([]string{"---"}, len(capabilityColumns))}
	for _, row := range append(head, capabilityTable(lockport.DefaultMux().Schemes())...) {
		text += "|" + strings.Join(row, "|") + "|\n"
	}
	pages.Holds(t, "../README.md", "capabilities", text)
}
