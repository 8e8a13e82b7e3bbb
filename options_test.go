package lockport_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/memory/memorytest"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
)

// Require accepts exactly the backends that state what is required, or more.
func TestRequire(t *testing.T) {
	type caps = driver.Capabilities
	for _, v := range []struct {
		need     lockport.Requirement
		set      func(c *caps, value int)
		enough   int // the least value that suffices
		greatest int
	}{
		{lockport.NeedTokens, func(c *caps, v int) { c.Token = driver.TokenScope(v) }, int(driver.TokenData), int(driver.TokenFailover)},
		{lockport.NeedTokensAcrossFailover, func(c *caps, v int) { c.Token = driver.TokenScope(v) }, int(driver.TokenFailover), int(driver.TokenFailover)},
		{lockport.NeedFailoverSafety, func(c *caps, v int) { c.Failover = driver.FailoverSafety(v) }, int(driver.FailoverSafe), int(driver.FailoverSafe)},
		{lockport.NeedFairOrder, func(c *caps, v int) { c.Fair = driver.Fairness(v) }, int(driver.FairAdvice), int(driver.FairFIFO)},
		{lockport.NeedNoPolling, func(c *caps, v int) { c.Wake = driver.WakeMode(v) }, int(driver.WakeNotify), int(driver.WakeQueue)},
		{lockport.NeedShared, func(c *caps, v int) { c.Shared = v > 0 }, 1, 1},
		{lockport.NeedPermits, func(c *caps, v int) { c.Permits = v > 0 }, 1, 1},
		{lockport.NeedDetach, func(c *caps, v int) { c.Detach = v > 0 }, 1, 1},
	} {
		for value := range v.greatest + 1 {
			_, err := lockport.New(stating{notifying{memorytest.NewBackend(nil, nil), nil}, func(c *caps) { v.set(c, value) }}, lockport.Require(v.need))
			if value >= v.enough {
				require.NoError(t, err, "%d: %d", v.need, value)
			} else {
				require.ErrorIs(t, err, errors.ErrUnsupported, "%d: %d", v.need, value)
			}
		}
	}
	for _, need := range []lockport.Requirement{lockport.NeedDetach, lockport.NeedNoPolling} { // their interfaces are hidden
		require.ErrorIs(t, peer.ErrOf(lockport.New(plain{memorytest.NewBackend(nil, nil)}, lockport.Require(need))), errors.ErrUnsupported, need)
	}
}
