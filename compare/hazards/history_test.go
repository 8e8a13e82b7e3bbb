package hazards

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/history"
	byhand "github.com/lockport/lockport/internal/lab/history/text"
	"github.com/lockport/lockport/internal/lab/report"
)

// judged is what a history shows of the lock "n". The history is in the format of package text; a semicolon ends an event too.
func judged(t *testing.T, text string, found ...history.Event) report.Run {
	h, err := history.NewHistory(append(byhand.Events(strings.ReplaceAll(text, ";", "\n")), found...))
	require.NoError(t, err)
	return judge(h, "n")
}

// Beginnings of several histories.
const (
	// Both believe from 2100 to 2500.
	bothBelieve = `
		0 w1/0 spawned; 5 w2/0 spawned; 100 w1/1 asked; 110 w1/1 got token 1024 deadline 2000; 120 w2/1 asked; 1000 - noted: injected
		1500 w1/1 extended token 1024 deadline 2500; 2100 w2/1 got token 2048 deadline 4000; 2900 - noted: healed; 3000 w1/1 told
	`
	// The older hold has ended when the newer one begins.
	oneAfterAnother = `
		0 w1/0 spawned; 5 w2/0 spawned; 100 w1/1 asked; 110 w1/1 got token 1024 deadline 2000; 120 w2/1 asked; 1000 - noted: injected; 1010 w1/0 stopped
		2100 w2/1 got token 2048 deadline 4000; 2150 w1/0 continued; 2160 - noted: healed; 3000 w1/1 told
	`
)
