package house

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The module keeps the rules.
func TestHouse(t *testing.T) {
	here, err := readTree(os.DirFS("../.."))
	require.NoError(t, err)
	require.True(t, here.has("driver", "driver.go"), "the test does not run inside the module")
	require.Greater(t, len(here.files), 20)
	if lines := here.breaches(); len(lines) > 0 {
		t.Errorf("%d breaches of the rules of the house:\n%s", len(lines), strings.Join(lines, "\n"))
	}
}
