package libraries_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lockport/lockport/conformance/exhibits/libraries"
	"github.com/lockport/lockport/internal/pages"
)

// The table of other projects' bugs in docs/testing.md is that of the exhibits.
func TestTable(t *testing.T) {
	var b strings.Builder
	b.WriteString("\n| bug | whose | what is broken | on | caught by |\n|---|---|---|---|---|\n")
	for _, x := range libraries.All() {
		fmt.Fprintf(&b, "| %s | [%s](%s) | %s | %s | `%s` |\n", x.Name, x.Library, x.Reference, x.Is, x.Server, strings.Join(x.CaughtBy, "`, `"))
	}
	pages.Holds(t, "testing.md", "libraries", b.String())
}
