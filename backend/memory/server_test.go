package memory

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
)

// Free names cost nothing.
func TestNothingIsKept(t *testing.T) {
	b := NewBackend(Options{})
	for _, req := range []driver.Request{{Name: "x"}, {Name: "y", Shared: true}, {Name: "x", Permits: 2}} {
		req.Owner, req.TTL = "o", time.Second
		lease, err := b.TryAcquire(t.Context(), req)
		require.NoError(t, err)
		require.NoError(t, lease.Release(t.Context()))
	}
	require.Empty(t, b.server.names)
}
