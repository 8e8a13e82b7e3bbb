package lib

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance/library"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
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
	ctx := peer.Within(t, 30*time.Second)
	const ttl = 10 * time.Second
	open := func() func(name string, wait bool) (*library.Hold, error) {
		client := peer.Must(l.Open(ctx, url, ttl))(t)
		t.Cleanup(func() { require.NoError(t, client.Close()) })
		return func(name string, wait bool) (*library.Hold, error) {
			return client.Take(ctx, library.Claim{Name: name, TTL: ttl, Wait: wait})
		}
	}
	a, b := open(), open()
	cycle := func(name string, wait bool) error { // of another instance
		hold, err := b(name, wait)
		if err == nil {
			err = hold.Release(ctx)
		}
		return err
	}
	hold := peer.Must(a("name", true))(t)
	if l.Beside {
		require.NoError(t, cycle("name", true))
	}
	if l.Kind == Probe || l.Beside {
		require.NoError(t, hold.Release(ctx))
		return
	}
	for _, other := range []func(string, bool) (*library.Hold, error){a, b} { // a session of some libraries does not exclude itself
		require.ErrorIs(t, peer.ErrOf(other("name", false)), driver.ErrHeld)
	}
	require.NoError(t, cycle("another-name", false))
	granted := make(chan error, 1)
	go func() {
		var err error
		if l.Kind != Floor || l.In("handoff-other") { // some floors cannot wait
			err = cycle("name", true)
		}
		granted <- err
	}()
	if hold.Renew != nil {
		require.NoError(t, peer.ErrOf(hold.Renew(ctx)))
	}
	require.NoError(t, hold.Release(ctx))
	require.NoError(t, <-granted)
	require.NoError(t, cycle("name", false))
}
