package hazards

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every hazard has its texts, in the order of the numbers, short enough to be read.
func TestHazardsHaveTexts(t *testing.T) {
	all := Hazards()
	require.Len(t, all, 15)
	for i, h := range all {
		require.Equal(t, fmt.Sprint("H", i+1), h.ID)
		require.NotEmpty(t, h.Articles, h.ID)
		for _, a := range h.Articles {
			require.Regexp(t, `^00[0-4]$`, a, h.ID)
		}
		require.LessOrEqual(t, len(h.Title), 60, h.ID)
		for _, text := range []string{h.Title, h.Happens, h.Do} {
			require.NotEmpty(t, text, h.ID)
			require.Equal(t, strings.Join(strings.Fields(text), " "), text, "%s: spaces", h.ID)
		}
		require.True(t, strings.HasSuffix(h.Happens, ".") && strings.HasSuffix(h.Do, "."), h.ID)
		require.LessOrEqual(t, len(h.Happens), 450, h.ID)
		require.LessOrEqual(t, len(h.Do), 350, h.ID)
	}
}
