package redis

import (
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
)

func TestURLs(t *testing.T) {
	t.Parallel()
	for rawURL, look := range map[string]func(b *Backend){
		"redis://user:secret@host:7000/3?prefix=app:&read_timeout=1s": func(b *Backend) {
			o := b.pipe.Client.(*goredis.Client).Options()
			require.Equal(t, []any{"host:7000", 3, "user", "secret", time.Second}, []any{o.Addr, o.DB, o.Username, o.Password, o.ReadTimeout})
			require.True(t, o.ContextTimeoutEnabled)
			require.Equal(t, "app:x", b.layout.Key("x"))
		},
		"redis://host?prefix=&replicas=2&wait_timeout=100ms&read_timeout=-1": func(b *Backend) {
			require.Equal(t, []any{"x", 2, 100 * time.Millisecond}, []any{b.layout.Key("x"), b.o.Replicas, b.o.WaitTimeout})
		},
		"rediss://host": func(b *Backend) { require.NotNil(t, b.pipe.Client.(*goredis.Client).Options().TLSConfig) },
		"redis+sentinel://host?master_name=m&addr=other:1": func(b *Backend) {
			require.Equal(t, "FailoverClient", b.pipe.Client.(*goredis.Client).Options().Addr)
		},
		"rediss+cluster://host?addr=other:1": func(b *Backend) {
			o := b.pipe.Client.(*goredis.ClusterClient).Options()
			require.Equal(t, []string{"host:6379", "other:1"}, o.Addrs)
			require.NotNil(t, o.TLSConfig)
			require.True(t, o.ContextTimeoutEnabled)
		},
	} {
		b := peer.Opened(t, rawURL)
		look(b.(*Backend))
		require.NoError(t, b.Close())
		require.ErrorIs(t, b.(*Backend).pipe.Client.Ping(t.Context()).Err(), goredis.ErrClosed)
	}
}

func TestBadURLs(t *testing.T) {
	t.Parallel()
	peer.BadURLs(t, map[string]string{
		"redis://u:secret@host?pool=1":                        "unexpected option: pool",
		"redis://u:secret@host?read_timeout=x":                "read_timeout",
		"redis://u:secret@host?prefix={x}":                    "braces",
		"redis://u:secret@host?replicas=x":                    "replicas",
		"redis://u:secret@host?replicas=":                     "replicas",
		"redis://u:secret@host?replicas=-1":                   "Replicas is -1",
		"redis://u:secret@host?wait_timeout=1":                "wait_timeout",
		"redis+cluster://u:secret@host?pool_size=-1":          "pool_size",
		"redis://u:secret@host?wait_timeout=10s":              "WaitTimeout",
		"redis://u:secret@host/a/b":                           "path",
		"redis+sentinel://u:secret@host":                      "master_name",
		"redis+sentinel://host?master_name=m&replica_only=1":  "master",
		"redis+sentinel://h?master_name=m&route_by_latency=1": "master",
		"redis+sentinel://h?master_name=m&route_randomly=1":   "master",
		"redis+cluster://u:secret@host/3":                     "only database 0",
		"redis+cluster://u:secret@host?db=1":                  "db",
		"redis://u:secret@host?replicas=1&read_timeout=1s":    "read timeout",
		"redis+cluster://h?replicas=1&read_timeout=1s":        "read timeout",
	})
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	client := newClient(t, "redis://host")
	ring := goredis.NewRing(&goredis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	defer func() { _ = ring.Close() }()
	for _, v := range []struct {
		client goredis.UniversalClient
		o      Options
	}{
		{nil, Options{}}, {(*goredis.Client)(nil), Options{}}, {ring, Options{}}, {client, Options{Prefix: "x", NoPrefix: true}}, {client, Options{WaitTimeout: -1}},
	} {
		require.Error(t, peer.ErrOf(New(v.client, v.o)), "%+v", v)
	}
	n := nodeOn(t, client, "a", Options{})
	req := n.Request("x")
	req.TTL = 0
	peer.Fails(t, n, req, driver.ErrRefused)
}
