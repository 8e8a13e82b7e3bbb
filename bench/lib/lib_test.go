package lib_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/servers"

	"github.com/lockport/lockport/bench/lib"
)

// TestLibraries has each library take a name, be refused what another process's worth of it has, and take that when it has been released.
func TestLibraries(t *testing.T) {
	urls := map[string]func(t *testing.T) string{
		"redis": func(t *testing.T) string { return servers.NeedRedis(t, servers.RedisOptions{}).URL() },
		"redlock": func(t *testing.T) string {
			url := "redlock://"
			for i := range 5 {
				if i > 0 {
					url += ","
				}
				url += servers.NeedRedis(t, servers.RedisOptions{Own: true}).Addr()
			}
			return url
		},
		"etcd":      func(t *testing.T) string { return servers.NeedEtcd(t, servers.EtcdOptions{}).URL() },
		"zookeeper": func(t *testing.T) string { return servers.NeedZooKeeper(t, servers.ZooKeeperOptions{}).URL() },
		"postgres":  func(t *testing.T) string { return servers.NeedPostgres(t, servers.PostgresOptions{}).URL() },
		"mysql":     func(t *testing.T) string { return servers.NeedMariaDB(t, servers.MariaDBOptions{}).URL() },
		"file":      func(t *testing.T) string { return "file://" + t.TempDir() },
	}
	for family, start := range urls {
		t.Run(family, func(t *testing.T) {
			url := start(t)
			for _, l := range lib.All(family) {
				t.Run(l.Name, func(t *testing.T) { takesAndReleases(t, l, url) })
			}
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
