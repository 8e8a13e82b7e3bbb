package servers

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRedisDo(t *testing.T) {
	r := NeedRedis(t, RedisOptions{})
	require.Equal(t, "OK", do(t, r, "SET", "lockport-test-do", "a\r\nb", "PX", 60000))
	require.Equal(t, "a\r\nb", do(t, r, "GET", "lockport-test-do"))
	require.Equal(t, int64(1), do(t, r, "DEL", "lockport-test-do"))
	require.Nil(t, do(t, r, "GET", "lockport-test-do"))
	require.Equal(t, []any{int64(1), "two", nil, []any{}}, do(t, r, "EVAL", "return {1, 'two', false, {}}", 0))
	_, err := r.Do(t.Context(), "NO-SUCH-COMMAND")
	require.ErrorContains(t, err, "unknown command")
	_, err = r.Do(t.Context())
	require.Error(t, err)
}

func TestRedisUsers(t *testing.T) {
	r := NeedRedis(t, RedisOptions{Password: `p@ss "wörd" \`, MaxMemoryPolicy: "volatile-lru", Config: []string{"databases 3"}, Users: []string{"default off", "alice on >secret ~a:* resetchannels +@all"}})
	require.Equal(t, "OK", do(t, r, "SET", "b:1", "v"), "Do is not bound by the rules")
	require.Equal(t, []any{"maxmemory-policy", "volatile-lru"}, do(t, r, "CONFIG", "GET", "maxmemory-policy"))
	require.Equal(t, []any{"databases", "3"}, do(t, r, "CONFIG", "GET", "databases"))
	require.Equal(t, "redis://:p%40ss%20%22w%C3%B6rd%22%20%5C@"+r.Addr(), r.URL())
	require.Equal(t, "redis://alice:secret@"+r.Addr(), r.UserURL("alice", "secret"))
	alice := redisClient{addr: r.Addr(), user: "alice", password: "secret"}
	_, err := alice.do(t.Context(), "SET", "a:1", "v")
	require.NoError(t, err)
	_, err = alice.do(t.Context(), "SET", "b:1", "v")
	require.ErrorContains(t, err, "NOPERM")
	_, err = redisClient{addr: r.Addr()}.do(t.Context(), "PING")
	require.ErrorContains(t, err, "NOAUTH")
}

func TestRedisTLS(t *testing.T) {
	r := NeedRedis(t, RedisOptions{TLS: true})
	require.Equal(t, "PONG", do(t, r, "PING"))
	require.Equal(t, "rediss://"+r.Addr(), r.URL())

	pem, err := os.ReadFile(r.CAFile())
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(pem))
	_, err = redisClient{addr: r.Addr(), tls: &tls.Config{RootCAs: roots}}.do(t.Context(), "PING")
	require.NoError(t, err)

	_, err = redisClient{addr: r.Addr(), tls: &tls.Config{}}.do(t.Context(), "PING")
	var unknown x509.UnknownAuthorityError
	require.ErrorAs(t, err, &unknown)
	_, err = redisClient{addr: r.Addr()}.do(t.Context(), "PING")
	require.Error(t, err)

	plain := NeedRedis(t, RedisOptions{})
	require.Nil(t, plain.TLSConfig())
	require.Empty(t, plain.CAFile())
}

func TestFakeRedis(t *testing.T) {
	var client redisClient
	outer := t
	t.Run("while its test runs", func(t *testing.T) {
		f := NewFakeRedis(t, "5.0.14")
		client.addr = f.Addr()
		info, err := client.info(t.Context(), "server")
		require.NoError(t, err)
		require.Equal(t, "5.0.14", info["redis_version"])
		client.password = "any"
		reply, err := client.do(t.Context(), "PING")
		require.NoError(t, err)
		require.Equal(t, "PONG", reply)
		_, err = client.do(t.Context(), "HELLO", 3)
		require.ErrorContains(t, err, "unknown command")

		idle, err := net.Dial("tcp", f.Addr())
		require.NoError(t, err)
		outer.Cleanup(func() { _ = idle.Close() }) // the fake ends before
	})
	_, err := net.Dial("tcp", client.addr)
	require.Error(t, err)
}
