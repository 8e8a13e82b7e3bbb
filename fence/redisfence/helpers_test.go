package redisfence

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	_ "github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/backend/redis"
	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/fencetest"
	"github.com/lockport/lockport/internal/lab/servers"
)

// soon is far more than anything takes that follows at once, on a busy machine too.
const soon = 10 * time.Second

func newClient(t testing.TB, rawURL, addr string) *goredis.Client {
	o, err := goredis.ParseURL(rawURL)
	require.NoError(t, err)
	o.Addr = addr
	c := goredis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// place is a Redis with a fence, and a key of data in the same slot.
type place struct {
	t      testing.TB
	server *servers.Redis
	client *goredis.Client
	fence  *Fence
	data   string
}

func newPlace(t testing.TB) *place {
	s := servers.SharedRedis(t)
	p := &place{t: t, server: s, client: newClient(t, s.URL(), s.Addr())}
	tag := rand.Text()
	p.data = "data:{" + tag + "}"
	p.fence = newFence(t, p.client, "fence:{"+tag+"}")
	return p
}

func newFence(t testing.TB, c goredis.UniversalClient, key string) *Fence {
	f, err := New(c, key)
	require.NoError(t, err)
	return f
}

// at is p's fence as seen by another client.
func (p *place) at(addr string) *Fence {
	return newFence(p.t, newClient(p.t, p.server.URL(), addr), p.fence.Key())
}

// get is the data, or what else is at a key.
func (p *place) get(key string) string {
	p.t.Helper()
	v, err := p.client.Get(p.t.Context(), key).Result()
	if err != goredis.Nil {
		require.NoError(p.t, err)
	}
	return v
}

func registers(t testing.TB, f *Fence, token lockport.Token) *Guard {
	t.Helper()
	g, err := f.Register(t.Context(), token)
	require.NoError(t, err)
	return g
}

// follows waits until c is closed.
func follows(t testing.TB, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(soon):
		require.FailNow(t, "it did not happen")
	}
}

// newProxy is a proxy in front of s.
func newProxy(t testing.TB, addr string) *faultproxy.Proxy {
	proxy, err := faultproxy.New(addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = proxy.Close() })
	return proxy
}

func newLocker(t testing.TB, c goredis.UniversalClient) *lockport.Client {
	l, err := redis.New(c, redis.Options{}, lockport.TTL(5*time.Second), lockport.Logger(nil))
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// open opens the values of a Redis, for fencetest. They are written by write.
func open(rawURL string, write writer) (fencetest.Values[*Guard], error) {
	o, err := goredis.ParseURL(rawURL)
	if err != nil {
		return fencetest.Values[*Guard]{}, err
	}
	c := goredis.NewClient(o)
	key := func(name string) string { return "data:{" + name + "}" }
	return fencetest.Values[*Guard]{
		Fence: func(name string) (fencetest.Fence[*Guard], error) { return New(c, "fence:{"+name+"}") },
		Write: func(ctx context.Context, g *Guard, name, value string) error { return write(ctx, g, key(name), value) },
		Bare:  func(ctx context.Context, name, value string) error { return c.Set(ctx, key(name), value, 0).Err() },
		Get: func(ctx context.Context, name string) (string, error) {
			v, err := c.Get(ctx, key(name)).Result()
			if errors.Is(err, goredis.Nil) {
				err = nil
			}
			return v, err
		},
		Close: c.Close,
	}, nil
}

const byTx = "transaction"

func TestMain(m *testing.M) {
	kinds := func(how string) map[string]fencetest.Kind {
		return fencetest.Kinds(func(rawURL string) (fencetest.Values[*Guard], error) { return open(rawURL, writes[how]) },
			func(ctx context.Context, rawURL string, ttl time.Duration) (*lockport.Client, error) {
				return lockport.Open(ctx, rawURL, lockport.TTL(ttl), lockport.Logger(nil))
			})
	}
	all := kinds("set")
	all[byTx] = kinds("tx")[fencetest.ByToken]
	os.Exit(fencetest.Main(m, all))
}

// Holders that were stopped until their locks had expired go on, and write.
func TestLateHolders(t *testing.T) {
	s := servers.SharedRedis(t)
	fencetest.Late(t, fencetest.Run{Store: s.URL(), Locks: s.URL(), LateTTL: 500 * time.Millisecond}, fencetest.Bare, fencetest.ByToken, byTx, fencetest.ByLock)
}

// writer writes value to key through a guard.
type writer = func(ctx context.Context, g *Guard, key, value string) error

// writes are the ways to write value to key through a guard.
var writes = map[string]writer{
	"set": func(ctx context.Context, g *Guard, key, value string) error { return g.Set(ctx, key, value, 0) },
	"do": func(ctx context.Context, g *Guard, key, value string) error {
		return g.Do(ctx, "SET", key, value).Err()
	},
	"run": func(ctx context.Context, g *Guard, key, value string) error {
		return g.Run(ctx, setScript, []string{key}, value).Err()
	},
	"tx": func(ctx context.Context, g *Guard, key, value string) error {
		_, err := g.Tx(ctx, func(_ *goredis.Tx, pipe goredis.Pipeliner) error {
			pipe.Set(ctx, key, value, 0)
			return nil
		}, key)
		return err
	},
}

var setScript = NewScript("redis.call('set', KEYS[1], ARGV[1]) return #KEYS * 10 + #ARGV")

func stale(t testing.TB, err error, token, seen lockport.Token) {
	t.Helper()
	fencetest.Stale(t, "redisfence", err, token, seen)
}

func oneLine(t testing.TB, err error) {
	t.Helper()
	fencetest.OneLine(t, "redisfence", err)
}
