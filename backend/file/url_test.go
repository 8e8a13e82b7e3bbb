package file

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

func TestURL(t *testing.T) {
	dir := t.TempDir() + "/with space"
	_, err := lockport.Open(t.Context(), (&url.URL{Scheme: "file", Path: dir}).String())
	require.ErrorIs(t, err, driver.ErrRefused)
	require.ErrorContains(t, err, dir)

	for good, want := range map[string]string{
		"file:":                  DefaultDir(),
		"file://":                DefaultDir(),
		"file:///a%20b/c?ttl=3s": "/a b/c",
		"file:/a/../b":           "/b",
	} {
		b, _, err := lockport.DefaultMux().OpenBackend(good)
		require.NoError(t, err, good)
		require.Equal(t, want, b.(*Backend).Dir(), good)
	}
	for _, bad := range []string{"file:relative", "file://host/dir", "file:///dir?prefix=x", "file:///dir#x", "file://user@/dir"} {
		_, _, err := lockport.DefaultMux().OpenBackend(bad)
		require.Error(t, err, bad)
	}
}
