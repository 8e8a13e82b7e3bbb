package redlock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
)

// A ping is answered by a majority, and waits for no more.
func TestPing(t *testing.T) {
	x := plainNodes(t, 5)
	a := newPeer(t, x.url(), "a")
	ping := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), maxNodeTimeout/2) // for which nobody who hangs is waited
		defer cancel()
		_, err := a.Ping(ctx)
		return err
	}
	require.NoError(t, ping())
	x.freeze(t, 0, 1)
	for range 20 {
		require.NoError(t, ping())
	}
	x.kill(t, 2) // which is certain at once
	err := ping()
	require.ErrorIs(t, err, driver.ErrUnavailable)
	x.thaw(t, 0, 1)
	require.Eventually(t, func() bool { return ping() == nil }, soon, 10*time.Millisecond)
	x.kill(t, 3, 4)
	_, err = a.Ping(t.Context())
	require.ErrorIs(t, err, driver.ErrUnavailable)
	require.ErrorContains(t, err, "3 of 5 nodes do not serve, and 3 are needed: 127.0.0.1:")
}
