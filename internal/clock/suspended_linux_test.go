package clock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Before a suspend, less time was spent suspended. Of a time before two suspends nothing is known.
func TestSuspendedAt(t *testing.T) {
	defer latest.Store(latest.Load())
	at := time.Now()
	latest.Store(&rise{at: at, earlier: at.Add(-time.Minute), before: 2 * time.Hour, now: 3 * time.Hour})
	require.Equal(t, 3*time.Hour, SuspendedAt(at))
	require.Equal(t, 2*time.Hour, SuspendedAt(at.Add(-time.Second)))
	require.Zero(t, SuspendedAt(at.Add(-2*time.Minute)))
}
