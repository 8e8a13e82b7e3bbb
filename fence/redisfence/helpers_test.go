package redisfence

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	_ "github.com/lockport/lockport/backend/memory"
	_ "github.com/lockport/lockport/backend/redis"
	"github.com/lockport/lockport/internal/lab/fencetest"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
)

func newClient(t testing.TB, o goredis.Options) *goredis.Client {
	c := goredis.NewClient(&o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// place is a Redis with a fence, and a data key in the same slot.
type place struct {
	t      testing.TB
	server *servers.Redis
	client *goredis.Client
	fence  *Fence
	data   string
}

func newPlace(t testing.TB) *place {
	s := servers.SharedRedis(t)
	c, tag := newClient(t, goredis.Options{Addr: s.Addr()}), "{"+rand.Text()+"}"
	return &place{t, s, c, peer.Must(New(c, "fence:"+tag))(t), "data:" + tag}
}

// get returns the value of the data key, or of another key.
func (p *place) get(key string) string {
	p.t.Helper()
	v, err := p.client.Get(p.t.Context(), key).Result()
	if err != goredis.Nil {
		require.NoError(p.t, err)
	}
	return v
}

// open opens the numbers of a Redis, for fencetest.
func open(_ context.Context, rawURL string) (*fencetest.Store, error) {
	o, err := goredis.ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	c := goredis.NewClient(o)
	key := func(name string) string { return "data:{" + name + "}" }
	return &fencetest.Store{
		Register: fencetest.Register(
			func(name string) (*Fence, error) { return New(c, "fence:{"+name+"}") },
			func(ctx context.Context, g *Guard, name string, value int64) error {
				return g.Set(ctx, key(name), value, 0)
			}),
		Bare: func(ctx context.Context, name string, value int64) error {
			return c.Set(ctx, key(name), value, 0).Err()
		},
		Get: func(ctx context.Context, name string) (int64, error) {
			value, err := c.Get(ctx, key(name)).Int64()
			if errors.Is(err, goredis.Nil) {
				err = nil
			}
			return value, err
		},
		Close: func() { _ = c.Close() },
	}, nil
}

func TestMain(m *testing.M) { fencetest.Main(m, open) }

// writes are the ways to write value to key through a guard.
var writes = map[string]func(ctx context.Context, g *Guard, key, value string) error{
	"set": func(ctx context.Context, g *Guard, key, value string) error { return g.Set(ctx, key, value, 0) },
	"do": func(ctx context.Context, g *Guard, key, value string) error {
		return g.Do(ctx, "SET", key, value).Err()
	},
	"run": func(ctx context.Context, g *Guard, key, value string) error {
		return g.Run(ctx, setScript, []string{key}, value).Err()
	},
}

var setScript = NewScript("redis.call('set', KEYS[1], ARGV[1]) return #KEYS * 10 + #ARGV")

var registers = fencetest.Registers[*Guard]

const errs fencetest.Errors = "redisfence"
