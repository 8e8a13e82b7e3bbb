package redis

import (
	"context"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/servers"
)

func TestSmoke(t *testing.T) {
	s := servers.NeedRedis(t, servers.RedisOptions{})
	o, err := goredis.ParseURL(s.URL())
	require.NoError(t, err)
	c := goredis.NewClient(o)
	defer c.Close()
	b, err := NewBackend(c, Options{})
	require.NoError(t, err)
	ctx := context.Background()
	n, err := b.Check(ctx)
	require.NoError(t, err)
	t.Log(n)
	req := driver.Request{Name: "a{b}%", Owner: "0123456789abcdef0123456789abcdef:me/1/x", TTL: time.Second}
	l, err := b.TryAcquire(ctx, req)
	require.NoError(t, err)
	t.Log(l.Grant())
	u, err := l.Renew(ctx)
	require.NoError(t, err)
	t.Log(u)
	st, err := b.List(ctx, "")
	require.NoError(t, err)
	t.Logf("%+v", st)
	require.NoError(t, l.Release(ctx, driver.ReleaseOptions{}))
	require.NoError(t, b.Close())
	k, err := s.Do(ctx, "KEYS", "*")
	require.NoError(t, err)
	t.Log(k)
}
