package redisfence

import (
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/redis"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/fence"
	"github.com/lockport/lockport/internal/lab/fencetest"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
)

// The promises of all fences. Run executes every kind of write as a script.
func TestCases(t *testing.T) {
	p := newPlace(t)
	key := func(name string) string { return "fence:{" + name + "}" }
	fencetest.Cases(t, fencetest.Subject{
		Place:  fencetest.Place{Store: p.server.URL(), Locks: p.server.URL()},
		Errors: errs, Addr: p.server.Addr(),
		Layout: "%d",
		Text:   func(name string) string { return p.get(key(name)) },
		Remove: func(name string) { require.NoError(t, p.client.Del(t.Context(), key(name)).Err()) },
		Put:    func(name, odd string) { require.NoError(t, p.client.Set(t.Context(), key(name), odd, 0).Err()) },
		Odd:    []string{"", "0", "x", "12x", "-5", "1\n2", "x\n", "007", "123456789012345678901"},
	})
}

func TestBadInput(t *testing.T) {
	p := newPlace(t)
	for _, client := range []goredis.UniversalClient{nil, (*goredis.Client)(nil)} {
		require.ErrorContains(t, peer.ErrOf(New(client, "k")), "nil")
	}
	require.ErrorContains(t, peer.ErrOf(New(p.client, "")), "empty")
	ring := goredis.NewRing(&goredis.RingOptions{})
	t.Cleanup(func() { _ = ring.Close() })
	require.ErrorContains(t, peer.ErrOf(New(ring, "k")), "Ring")
	g := registers(t, p.fence, 5)
	require.ErrorContains(t, g.Set(t.Context(), p.data, "x", -time.Second), "invalid expire")
	require.ErrorContains(t, g.Do(t.Context(), "SET", 5, "x").Err(), "must be the key")
	require.Error(t, g.Do(t.Context()).Err())
	require.ErrorContains(t, g.Do(t.Context(), "SETX", p.data).Err(), "nknown")
	require.Empty(t, p.get(p.data))
	require.NoError(t, p.client.RPush(t.Context(), p.data, "5").Err())
	require.ErrorContains(t, peer.ErrOf(peer.Must(New(p.client, p.data))(t).Register(t.Context(), 6)), "a place of its own")
}

// A script sees only its own keys and arguments, and what it returns or raises is passed on. Set's expiry is that of SET.
func TestWrites(t *testing.T) {
	p := newPlace(t)
	g := registers(t, p.fence, 5)
	require.NoError(t, g.Set(t.Context(), p.data, "x", time.Hour))
	require.Greater(t, p.client.PTTL(t.Context(), p.data).Val(), 59*time.Minute)
	require.NoError(t, g.Set(t.Context(), p.data, "x", 0))
	require.Equal(t, time.Duration(-1), p.client.PTTL(t.Context(), p.data).Val())
	errs.OneLine(t, g.Do(t.Context(), "RPUSH", p.data, "x").Err(), `write guarded at "`+p.fence.Key()+`": WRONGTYPE`) // the data's, not the fence's
	keys, args := []string{p.data, "mine"}, []any{[]byte("x"), "mine"}
	require.EqualValues(t, 11, g.Run(t.Context(), setScript, keys[:1], args[:1]...).Val())
	require.Equal(t, []any{"mine", []byte("x"), "mine"}, []any{keys[1], args[0], args[1]}, "the caller's slices are not changed")
	require.EqualValues(t, 0, g.Run(t.Context(), NewScript("return #KEYS * 10 + #ARGV"), nil).Val())
	require.Equal(t, goredis.Nil, g.Run(t.Context(), NewScript("return false"), nil).Err())
	require.Equal(t, goredis.Nil, g.Do(t.Context(), "GET", "no"+p.data).Err())
	require.Equal(t, "1.5", g.Do(t.Context(), "INCRBYFLOAT", p.data+"f", 1.5).Val())
	err := g.Run(t.Context(), NewScript("return redis.error_reply('ITSOWN error')"), nil).Err()
	errs.OneLine(t, err, "ITSOWN error")
	require.NotErrorIs(t, err, fence.ErrStale)
	require.ErrorContains(t, g.Run(t.Context(), NewScript("\n\nlocal x = nil + 1"), nil).Err(), "user_script:3", "the line in the caller's own source")
	require.Error(t, g.Run(t.Context(), NewScript("local seen, token, key, value = 1, 2, 3, 4 return tostring(_G.seen)"), nil).Err(), "its variables are invisible")
}

func TestCluster(t *testing.T) {
	cluster := servers.NeedCluster(t, servers.RedisOptions{})
	client := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: cluster.Addrs()})
	t.Cleanup(func() { _ = client.Close() })
	locks := peer.Client(t, peer.Must(redis.NewBackend(client, redis.Options{}))(t))
	for _, tag := range []string{"a", "b", "c", "d", "e"} { // on one node or another
		name := "account-" + tag
		l := peer.Holds(t, locks, name)
		elsewhere := "data:{elsewhere" + tag + "}"
		hash := "{lockport:" + name + "}"
		f := peer.Must(New(client, "fence:"+hash))(t)
		old := registers(t, f, 1)
		g := peer.Must(f.RegisterLock(t.Context(), l))(t)
		for how, write := range writes {
			require.NoError(t, write(t.Context(), g, "data:"+hash, how))
			require.Equal(t, how, client.Get(t.Context(), "data:"+hash).Val())
			errs.Stale(t, write(t.Context(), old, "data:"+hash, "late"), 1, g.Token())
			errs.OneLine(t, write(t.Context(), g, elsewhere, how), "hash tag")
		}
		require.ErrorContains(t, g.Run(t.Context(), NewScript("return redis.call('set', ARGV[1], 1)"), nil, elsewhere).Err(), "hash tag")
		require.ErrorContains(t, peer.ErrOf(peer.Must(New(client, "fence:{elsewhere}"))(t).RegisterLock(t.Context(), l)), "hash tag")
	}
}

// A lock's key with a value of another type is not the lock. Readers' locks and permits are refused: no key proves that they are held.
func TestOtherLocks(t *testing.T) {
	p := newPlace(t)
	locks := peer.Client(t, peer.Must(redis.NewBackend(p.client, redis.Options{}))(t))
	for _, as := range []lockport.AcquireOption{lockport.Shared(), lockport.Permits(2)} {
		l := peer.Holds(t, locks, t.Name(), as)
		errs.OneLine(t, peer.ErrOf(p.fence.RegisterLock(t.Context(), l)), "neither a reader's nor a permit")
		require.NoError(t, l.Release(t.Context()))
	}
	g := peer.Must(p.fence.RegisterLock(t.Context(), peer.Holds(t, locks, t.Name())))(t)
	require.NoError(t, p.client.Del(t.Context(), "lockport:"+t.Name()).Err())
	require.NoError(t, p.client.HSet(t.Context(), "lockport:"+t.Name(), "a", "b").Err())
	errs.OneLine(t, g.Set(t.Context(), p.data, "x", 0), "", fence.ErrStale, lockport.ErrLost)
}

func TestServerGone(t *testing.T) {
	s := servers.NeedRedis(t, servers.RedisOptions{})
	f := peer.Must(New(newClient(t, goredis.Options{Addr: s.Addr()}), "fence"))(t)
	g := registers(t, f, 5)
	require.NoError(t, s.Kill())
	errs.OneLine(t, peer.ErrOf(f.Register(t.Context(), 6)), "")
	for _, write := range writes {
		errs.OneLine(t, write(t.Context(), g, "data", "x"), "", driver.ErrUnavailable)
	}
}

// The page's privileges suffice. Without them the error says so.
func TestPrivileges(t *testing.T) {
	s := servers.NeedRedis(t, servers.RedisOptions{Password: "secret", Users: []string{
		"app on >hidden ~data:* ~fence:* -@all +eval +evalsha +get +set",
		"narrow on >hidden ~data:* +@all",
	}})
	login := func(user, password string) *Fence {
		return peer.Must(New(newClient(t, goredis.Options{Addr: s.Addr(), Username: user, Password: password}), "fence:x"))(t)
	}
	g := registers(t, login("app", "hidden"), 5)
	for how, write := range writes {
		require.NoError(t, write(t.Context(), g, "data:x", how))
	}
	for user, want := range map[string]string{"narrow": "NOPERM", "nobody": "WRONGPASS"} {
		_, err := login(user, "hidden").Register(t.Context(), 6)
		errs.OneLine(t, err, want)
		require.NotErrorIs(t, err, fence.ErrStale)
		require.NotContains(t, err.Error(), "hidden")
	}
}

// A write that was given up may still be sent, even on a new connection, with the value that it was called with: its outcome is unknown.
func TestLateWrites(t *testing.T) {
	p := newPlace(t)
	proxy := peer.Proxy(t, p.server.Addr())
	g := registers(t, peer.Must(New(newClient(t, goredis.Options{Addr: proxy.Addr()}), p.fence.Key()))(t), 5)
	require.NoError(t, g.Do(t.Context(), "INCR", p.data).Err())
	proxy.KillConns()
	proxy.Freeze()
	require.ErrorIs(t, g.Do(peer.Within(t, time.Second), "INCR", p.data).Err(), driver.ErrUnknown)
	proxy.Restore()
	require.Eventually(t, func() bool { return p.get(p.data) == "2" }, 2*peer.Soon, time.Millisecond)

	proxy.Freeze()
	first := strings.Repeat("first", 4<<20) // more than the buffers between here and the server
	value := []byte(first)
	require.ErrorIs(t, g.Set(peer.Within(t, time.Second), p.data, value, 0), driver.ErrUnknown)
	clear(value)
	proxy.Restore()
	require.Eventually(t, func() bool { return p.get(p.data) != "2" }, 4*peer.Soon, time.Millisecond)
	require.True(t, p.get(p.data) == first, "another value was written")
}
