package lockport_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/memory/memorytest"
	"github.com/lockport/lockport/driver"
)

// Require accepts a backend that states what is required, and refuses one that states nothing.
func TestRequire(t *testing.T) {
	all := []lockport.Requirement{lockport.NeedTokens, lockport.NeedTokensAcrossFailover, lockport.NeedFailoverSafety, lockport.NeedFairOrder,
		lockport.NeedNoPolling, lockport.NeedShared, lockport.NeedPermits, lockport.NeedDetach}
	_, err := lockport.New(stating{memorytest.NewBackend(nil, nil), func(caps *driver.Capabilities) {
		caps.Token, caps.Failover = driver.TokenFailover, driver.FailoverSafe
	}}, lockport.Require(all...))
	require.NoError(t, err)
	for _, one := range all {
		_, err := lockport.New(stating{memorytest.NewBackend(nil, nil), func(caps *driver.Capabilities) {
			*caps = driver.Capabilities{Backend: "none", Ends: driver.EndsTTL, MinTTL: caps.MinTTL, Wake: driver.WakePoll}
		}}, lockport.Require(one))
		require.ErrorIs(t, err, errors.ErrUnsupported, one)
	}
}
