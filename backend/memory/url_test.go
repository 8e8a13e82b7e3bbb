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

	a, b := on(t, open("memory:url-test"), "a"), on(t, open("memory:url-test"), "b")
	lease := a.Takes(a.Request("x"))
	_, err := b.Try(driver.Request{Name: "x", Owner: "b"})
	require.ErrorIs(t, err, driver.ErrHeld)
	a.Frees(lease)

	for _, bad := range []string{"memory://host", "memory:///path", "memory:x?prefix=y", "memory:x#fragment"} {
		_, _, err := lockport.DefaultMux().OpenBackend(bad)
		require.Error(t, err, bad)
	}
}
