package lib

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lab/measure"
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
	open := func() measure.Locker {
		locker, err := l.Open(ctx, measure.Config{URL: url, TTL: 10 * time.Second, Loop: true})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, locker.Close()) })
		return locker
	}
	a, b := open(), open()
	release, err := a.Acquire(ctx, "name", true)
	require.NoError(t, err)
	if l.Beside {
		beside, err := b.Acquire(ctx, "name", true)
		require.NoError(t, err)
		require.NoError(t, beside(ctx))
	}
	if l.Name == Pings || l.Beside {
		require.NoError(t, release(ctx))
		return
	}
	for _, other := range []measure.Locker{a, b} { // a session of some libraries does not exclude itself
		_, err = other.Acquire(ctx, "name", false)
		require.ErrorIs(t, err, lockport.ErrHeld)
	}
	other, err := b.Acquire(ctx, "another name", false)
	require.NoError(t, err)
	require.NoError(t, other(ctx))

	granted := make(chan error, 1)
	go func() {
		if !l.Waits {
			granted <- nil
			return
		}
		next, err := b.Acquire(ctx, "name", true)
		if err == nil {
			err = next(ctx)
		}
		granted <- err
	}()
	require.NoError(t, release(ctx))
	require.NoError(t, <-granted)
	again, err := b.Acquire(ctx, "name", false)
	require.NoError(t, err)
	require.NoError(t, again(ctx))
}
