package memory_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/driver"
)

func TestURL(t *testing.T) {
	open := func(url string) *memory.Backend {
		b, _, err := lockport.DefaultMux().OpenBackend(url)
		require.NoError(t, err)
		return b.(*memory.Backend)
	}
	require.Same(t, memory.SharedServer(""), open("memory:").Server())
	require.Same(t, open("memory:url-test").Server(), open("memory:url-test?ttl=3s").Server())
	require.NotSame(t, open("memory:").Server(), open("memory:url-test").Server())

	lease := claim(t, open("memory:url-test"), request("x", "a"))
	_, err := open("memory:url-test").TryAcquire(t.Context(), request("x", "b"))
	require.ErrorIs(t, err, driver.ErrHeld)
	release(t, lease)

	for _, bad := range []string{"memory://host", "memory:///path", "memory:x?prefix=y", "memory:x#fragment"} {
		_, _, err := lockport.DefaultMux().OpenBackend(bad)
		require.Error(t, err, bad)
	}
}
