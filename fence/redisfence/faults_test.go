package redisfence

import (
	"context"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/fence"
	"github.com/lockport/lockport/internal/lab/servers"
)

func TestServerGone(t *testing.T) {
	s := servers.NeedRedis(t, servers.RedisOptions{})
	client := newClient(t, s.URL(), s.Addr())
	f := newFence(t, client, "fence")
	g := registers(t, f, 5)
	require.NoError(t, s.Kill())
	_, err := f.Register(t.Context(), 6)
	require.Error(t, err)
	errs.OneLine(t, err)
	for how, write := range writes {
		err := write(t.Context(), g, "data", "x")
		require.ErrorIs(t, err, driver.ErrUnavailable, how)
		errs.OneLine(t, err)
		t.Log(err)
	}
	require.NoError(t, s.Restart(t.Context()))
	err = g.Set(t.Context(), "data", "x", 0)
	require.ErrorIs(t, err, fence.ErrStale, "the data are gone, and the fence with them")
	registers(t, f, 5)
	require.NoError(t, g.Set(t.Context(), "data", "x", 0))
}

// The page's privileges suffice. Without them the error says so.
func TestPrivileges(t *testing.T) {
	s := servers.NeedRedis(t, servers.RedisOptions{Password: "secret", Users: []string{
		"app on >hidden ~data:* ~fence:* -@all +eval +evalsha +get +set",
		"narrow on >hidden ~data:* +@all",
	}})
	login := func(user, password string) *Fence {
		client := goredis.NewClient(&goredis.Options{Addr: s.Addr(), Username: user, Password: password})
		t.Cleanup(func() { _ = client.Close() })
		return newFence(t, client, "fence:x")
	}
	g := registers(t, login("app", "hidden"), 5)
	for how, write := range writes {
		require.NoError(t, write(t.Context(), g, "data:x", how))
	}
	for user, want := range map[string]string{"narrow": "NOPERM", "nobody": "WRONGPASS"} {
		_, err := login(user, "hidden").Register(t.Context(), 6)
		require.ErrorContains(t, err, want)
		require.NotErrorIs(t, err, fence.ErrStale)
		errs.OneLine(t, err)
		require.NotContains(t, err.Error(), "hidden")
	}
}

// A write given up before its connection was ready may still be sent: its outcome is unknown.
func TestGivenUpBeforeItIsSent(t *testing.T) {
	p := newPlace(t)
	proxy, err := faultproxy.New(p.server.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = proxy.Close() })
	g := registers(t, newFence(t, newClient(t, p.server.URL(), proxy.Addr()), p.fence.Key()), 5)
	require.NoError(t, g.Do(t.Context(), "INCR", p.data).Err())
	proxy.KillConns()
	proxy.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err = g.Do(ctx, "INCR", p.data).Err()
	proxy.Restore()
	require.Eventually(t, func() bool { return p.get(p.data) == "2" }, soon, time.Millisecond)
	require.ErrorIs(t, err, driver.ErrUnknown)
}
