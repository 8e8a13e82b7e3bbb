package conformance

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/pages"
)

// docs/testing.md explains every group.
func TestGroupsAreExplained(t *testing.T) {
	page := pages.Read(t, "testing.md")
	for _, c := range Cases() {
		require.Contains(t, page, "| `"+c.Group+"` |")
	}
}
