package clock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Without a suspend, suspended stands still, even in virtual time.
func TestSuspendedStandsStill(t *testing.T) {
	within := func(t *testing.T, pass func()) {
		start, greatest := Present()
		for range 1000 {
			_, suspended := Present()
			greatest = max(greatest, suspended)
		}
		pass()
		now, suspended := Present()
		require.GreaterOrEqual(t, now.Sub(start), 30*time.Millisecond)
		require.LessOrEqual(t, suspended, greatest+time.Millisecond)
	}
	within(t, func() { <-time.After(30 * time.Millisecond) })
	synctest.Test(t, func(t *testing.T) { within(t, func() { time.Sleep(time.Hour) }) })
}
