package lockport_test

import (
	"errors"
	"strings"
	"testing"
	"time"

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

// A nil option is ignored.
func TestOptionsOutOfRange(t *testing.T) {
	for want, o := range map[string]lockport.Option{
		"TTL is 1ms; the smallest is 20ms":           lockport.TTL(time.Millisecond),
		"the largest is 73 years":                    lockport.TTL(driver.MaxTTL + 1),
		"MaxHold is -1ns; it cannot be negative":     lockport.MaxHold(-1),
		"the label has 65 bytes; at most 64":         lockport.Label(strings.Repeat("a", 65)),
		"unknown requirement -1":                     lockport.Require(-1),
		"below the smallest that memory accepts, 1s": lockport.TTL(time.Second - 1),
	} {
		b := stating{notifying{memorytest.NewBackend(nil, nil), nil}, func(c *driver.Capabilities) { c.MinTTL = time.Second }}
		peer.SaysOneLine(t, peer.ErrOf(lockport.New(b, nil, o)), lockport.ErrInvalidOption, want)
	}
}
