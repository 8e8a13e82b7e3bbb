package compare

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
)

// A user's own servers are measured, and nothing is left on them. The second one of a backend has a number.
func TestURLs(t *testing.T) {
	server := servers.NeedRedis(t, servers.RedisOptions{Password: "hunter2"})
	all := peer.Must(userSubjects(t.Context(), []string{server.URL(), "file://" + t.TempDir(), server.URL() + "/1?ttl=1s"}))(t)
	require.Len(t, all, 3)
	require.Equal(t, []string{"redis", "file", "redis-2"}, []string{all[0].Name, all[1].Name, all[2].Name})
	require.Equal(t, []any{"Redis 2", "redis", ownTTL}, []any{all[2].Title, all[2].Page, all[0].ttl})
	c := measured(t, all[2])
	requirePlausible(t, c)
	require.Equal(t, []any{"redis-2", 1000.0}, []any{c.Subject, c.TTL})
	require.NotContains(t, fmt.Sprintf("%+v %+v", c, all), "hunter2@")
	keys := peer.Must(server.Do(t.Context(), "EVAL", "redis.call('select', 1) return redis.call('keys', 'lockport:*')", "0"))(t)
	require.Empty(t, keys, "locks are left")
}

// A URL that cannot be opened is reported before any measurement.
func TestURLsThatCannotBeMeasured(t *testing.T) {
	const nobody = "127.0.0.1:1"
	server := servers.NeedRedis(t, servers.RedisOptions{Password: "secret"})
	_, err := Run(t.Context(), Options{URLs: []string{"file://" + t.TempDir(), "redis://:hunter2@" + nobody}})
	peer.SaysOneLine(t, err, lockport.ErrUnavailable, "redis://"+nobody+" cannot be measured: ")
	for _, rawURL := range []string{"redis://app:hunter2%zz@localhost", "lockd://:hunter2@localhost", "redis://:hunter2@localhost/none", "memory:", "redis://:hunter2@" + server.Addr()} {
		_, err = Run(t.Context(), Options{URLs: []string{rawURL}})
		require.Error(t, err, rawURL)
		require.NotContains(t, err.Error(), "hunter2")
		require.Equal(t, 1, len(strings.Split(err.Error(), "\n")))
	}
	require.ErrorIs(t, err, lockport.ErrRefused, "the wrong password")
}

// A server that refuses the short TTL gets a longer one.
func TestShortestTTL(t *testing.T) {
	server := servers.NeedZooKeeper(t, servers.ZooKeeperOptions{Config: []string{"tickTime=2000"}})
	ttl, err := ask(t.Context(), server.URL(), 0)
	require.NoError(t, err)
	require.Equal(t, lockport.DefaultTTL, ttl)
	_, err = ask(t.Context(), server.URL(), time.Second)
	require.ErrorIs(t, err, lockport.ErrRefused, "the TTL of a URL is not changed")
}
