package exhibits_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lockport/lockport/conformance/exhibits"
	"github.com/lockport/lockport/internal/pages"
)

// The table of broken locks in docs/testing.md is that of the exhibits.
func TestTable(t *testing.T) {
	var b strings.Builder
	b.WriteString("\n| exhibit | what is broken | caught by |\n|---|---|---|\n")
	for _, x := range exhibits.All() {
		fmt.Fprintf(&b, "| %s | %s | `%s` |\n", x.Name, x.Is, strings.Join(x.CaughtBy, "`, `"))
	}
	pages.Holds(t, "testing.md", "exhibits", b.String())
}
