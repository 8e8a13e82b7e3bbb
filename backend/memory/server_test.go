package memory

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
)

// A request that reaches the server after its context has ended, and so perhaps after it was abandoned, claims nothing.
func TestLateRequest(t *testing.T) {
	s := NewServer()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c, err := s.enter(ctx, NewBackend(Options{Server: s}), driver.Request{Name: "x", Owner: "o", TTL: time.Second}, time.Now(), true)
	require.ErrorIs(t, err, driver.ErrUnavailable)
	require.ErrorIs(t, err, context.Canceled)
	require.Nil(t, c)
	require.Empty(t, s.names)
	require.Empty(t, s.claims)
}

// Names that are free cost nothing.
func TestNothingIsKept(t *testing.T) {
	s := NewServer()
	b := NewBackend(Options{Server: s})
	for _, name := range []string{"x", "y"} {
		lease, err := b.TryAcquire(t.Context(), driver.Request{Name: name, Owner: "o", TTL: time.Second})
		require.NoError(t, err)
		require.NoError(t, lease.Release(t.Context()))
	}
	require.Empty(t, s.names)
	require.Empty(t, s.claims)
}
