package conformance

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/pages"
)

// docs/guarantees.md names the groups of each promise, docs/testing.md the others.
func TestGroupsAreExplained(t *testing.T) {
	_, promises, _ := strings.Cut(pages.Read(t, "guarantees.md"), "\n## Proof\n")
	_, others, _ := strings.Cut(pages.Read(t, "testing.md"), "\n## The cases\n")
	for _, c := range Cases() {
		require.True(t, strings.Contains(promises, "`"+c.Group+"/") || strings.Contains(others, "`"+c.Group+"`"), c.Group)
	}
}
