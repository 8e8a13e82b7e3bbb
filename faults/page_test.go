package faults_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/pages"
)

// The page matches the code, and each fault of each environment is on it.
func TestPage(t *testing.T) {
	page := faults.Render()
	pages.Holds(t, "guarantees.md", "faults", page)
	for _, a := range environment.All() {
		_, section, found := strings.Cut(page, "\n### "+strings.ToUpper(a.Title[:1])+a.Title[1:]+"\n")
		require.True(t, found && len(faults.Cells(a.Name)) > 0, a.Title)
		section, _, _ = strings.Cut(section, "\n### ")
		for _, c := range faults.Cells(a.Name) {
			require.NotEmpty(t, c.Outcome, c.Fault)
			require.True(t, c.Harmless || strings.Contains(section, "\n|"+c.Fault+"|"+string(c.Outcome)), "%s under %s", a.Name, c.Fault)
		}
	}
}
