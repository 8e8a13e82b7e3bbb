package clock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Without a suspend, Suspended stands still, even in virtual time.
func TestSuspendedStandsStill(t *testing.T) {
	within := func(t *testing.T, pass func()) {
		smallest := Suspended()
		for range 1000 {
			smallest = max(smallest, Suspended())
		}
		start := Now()
		pass()
		require.GreaterOrEqual(t, Now().Sub(start), 30*time.Millisecond)
		require.LessOrEqual(t, Suspended(), smallest+time.Millisecond)
	}
	within(t, func() { <-time.After(30 * time.Millisecond) })
	synctest.Test(t, func(t *testing.T) { within(t, func() { time.Sleep(time.Hour) }) })
}
