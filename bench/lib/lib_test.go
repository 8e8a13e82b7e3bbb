package lib

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance/library"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

// Each library takes a name, is refused a name that another instance holds, and takes it after the release.
func TestLibraries(t *testing.T) {
	for _, f := range Families {
		t.Run(f.Name, func(t *testing.T) {
			s, err := f.Start(t.Context())
			servers.NeedInstalled(t, err)
			t.Cleanup(func() { require.NoError(t, s.Close()) })
			for _, l := range All {
				if l.Family == f.Name {
					t.Run(l.Name, func(t *testing.T) { takesAndReleases(t, l, s.URL) })
				}
			}
		})
	}
}

func takesAndReleases(t *testing.T, l Library, url string) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	const ttl = 10 * time.Second
	open := func() func(name string, wait bool) (*library.Hold, error) {
		client, err := l.Open(ctx, url, ttl)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, client.Close()) })
		return func(name string, wait bool) (*library.Hold, error) {
			return client.Take(ctx, library.Claim{Name: name, TTL: ttl, Wait: wait})
		}
	}
	a, b := open(), open()
	hold, err := a("name", true)
	require.NoError(t, err)
	if l.Beside {
		beside, err := b("name", true)
		require.NoError(t, err)
		require.NoError(t, beside.Release(ctx))
	}
	if l.Kind == Probe || l.Beside {
		require.NoError(t, hold.Release(ctx))
		return
	}
	for _, other := range []func(string, bool) (*library.Hold, error){a, b} { // a session of some libraries does not exclude itself
		_, err = other("name", false)
		require.ErrorIs(t, err, driver.ErrHeld)
	}
	other, err := b("another name", false)
	require.NoError(t, err)
	require.NoError(t, other.Release(ctx))

	granted := make(chan error, 1)
	go func() {
		if !l.Waits {
			granted <- nil
			return
		}
		next, err := b("name", true)
		if err == nil {
			err = next.Release(ctx)
		}
		granted <- err
	}()
	if hold.Renew != nil {
		_, err = hold.Renew(ctx)
		require.NoError(t, err)
	}
	require.NoError(t, hold.Release(ctx))
	require.NoError(t, <-granted)
	again, err := b("name", false)
	require.NoError(t, err)
	require.NoError(t, again.Release(ctx))
}
