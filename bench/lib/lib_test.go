package lib_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/servers"

	"github.com/lockport/lockport/bench/lib"
	"github.com/lockport/lockport/bench/stage"
)

// TestLibraries has each library take a name, be refused what another process's worth of it has, and take that when it has been released. The servers tell
// what that cost them.
func TestLibraries(t *testing.T) {
	for _, f := range stage.Families {
		t.Run(f.Name, func(t *testing.T) {
			s, err := f.Start(t.Context())
			servers.NeedInstalled(t, err, f.Kind)
			t.Cleanup(func() { require.NoError(t, s.Close()) })
			for _, l := range lib.All(f.Name) {
				t.Run(l.Name, func(t *testing.T) { takesAndReleases(t, l, s.URL) })
			}
			cpu, memory, err := s.Load(t.Context())
			require.NoError(t, err)
			require.Equal(t, f.Kind != "" && runtime.GOOS == "linux", cpu > 0 && memory > 0)
		})
	}
}

func takesAndReleases(t *testing.T, l lib.Library, url string) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	open := func() lib.Locker {
		locker, err := l.Open(ctx, lib.Config{URL: url, TTL: 10 * time.Second, Loop: true})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, locker.Close()) })
		return locker
	}
	a, b := open(), open()
	held, err := a.Acquire(ctx, "name")
	require.NoError(t, err)
	if l.Nothing {
		require.NoError(t, held.Release(ctx))
		return
	}
	_, err = b.Try(ctx, "name")
	require.ErrorIs(t, err, lib.ErrHeld)
	other, err := b.Try(ctx, "another name")
	require.NoError(t, err)
	require.NoError(t, other.Release(ctx))

	granted := make(chan error, 1)
	if l.Waits {
		go func() {
			next, err := b.Acquire(ctx, "name")
			if err == nil {
				err = next.Release(ctx)
			}
			granted <- err
		}()
	} else {
		granted <- nil
	}
	require.NoError(t, held.Release(ctx))
	require.NoError(t, <-granted)

	again, err := b.Try(ctx, "name")
	require.NoError(t, err)
	require.NoError(t, again.Release(ctx))
}

// TestHolders has goroutines of one process want the same name, and sees that they have it one after the other: some libraries let a session in
// where it already is.
func TestHolders(t *testing.T) {
	url := servers.NeedEtcd(t, servers.EtcdOptions{}).URL()
	l, err := lib.Find("etcd", "concurrency.Mutex")
	require.NoError(t, err)
	ctx := context.Background()
	locker, err := l.Open(ctx, lib.Config{URL: url, TTL: 10 * time.Second})
	require.NoError(t, err)
	defer func() { require.NoError(t, locker.Close()) }()
	held, err := locker.Try(ctx, "name")
	require.NoError(t, err)
	_, err = locker.Try(ctx, "name")
	require.ErrorIs(t, err, lib.ErrHeld)
	require.NoError(t, held.Release(ctx))
}
