package hazards

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/report"
)

// Every scenario has a script and a stated class, or says why not. IDs are unique. Each hazard covers every subject.
func TestTableIsWhole(t *testing.T) {
	seen := make(map[string]bool)
	for _, s := range table() {
		c := s.Cell
		require.False(t, seen[c.ID()], "%s is there twice", c.ID())
		seen[c.ID()] = true
		if s.NotRun != "" {
			s.Hazard = ""
			require.Equal(t, impossible(s.Subject, s.NotRun), s, c.ID())
			continue
		}
		require.Contains(t, golden, c.ID())
		require.NotNil(t, s.script, c.ID())
		require.NotEmpty(t, s.Setup, c.ID())
		_, err := environment.Named(s.environment)
		require.NoError(t, err, c.ID())
		require.Equal(t, s.Subject == report.Article, s.lock != "", c.ID())
	}
	for i, h := range Hazards() {
		require.Equal(t, fmt.Sprint("H", i+1), h.ID)
		require.NotEmpty(t, h.Title+h.Happens+h.Do)
		for _, subject := range subjects {
			require.True(t, seen[h.ID+"-"+subject], "%s has nothing for %s", h.ID, subject)
		}
	}
	for id := range golden {
		require.True(t, seen[id], "no scenario makes %s", id)
	}
}
