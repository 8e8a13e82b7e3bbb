package redischeck

import (
	"errors"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/redisscript"
)

// What a server does not let us ask is unknown; what else it answers is an error.
func TestDenied(t *testing.T) {
	for text, want := range map[string]bool{
		"ERR unknown command 'INFO', with args beginning with: ":        true, // renamed, as managed services do
		"NOPERM this user has no permissions to run the 'info' command": true,
		"LOADING Redis is loading the dataset in memory":                false,
		"ERR invalid argument": false,
	} {
		require.Equal(t, want, denied(redisscript.ReplyError(text)), text)
	}
	require.False(t, denied(errors.New("unknown command")), "not what a server said")
}

func TestNoticesOnce(t *testing.T) {
	var all Notices
	all.Add(driver.Notice{ID: "a", Text: "1"}, driver.Notice{ID: "b"}, driver.Notice{ID: "a", Text: "2"})
	all.Add(driver.Notice{ID: "b", Text: "3"})
	require.Equal(t, []driver.Notice{{ID: "a", Text: "1"}, {ID: "b"}}, all.List)
}

func TestName(t *testing.T) {
	require.Equal(t, "Redis 7.0.15", name(map[string]string{"redis_version": "7.0.15"}))
	require.Equal(t, "Valkey 8.1.0", name(map[string]string{"redis_version": "7.2.4", "server_name": "valkey", "valkey_version": "8.1.0"}))
	require.Empty(t, name(map[string]string{}))
}

func TestPubsubLimit(t *testing.T) {
	require.Equal(t, int64(33554432), pubsubLimit("normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60"))
	for _, text := range []string{"", "pubsub", "normal 0 0 0", "pubsub x"} {
		require.Zero(t, pubsubLimit(text), text)
	}
}

// Of the slow commands of the last day the slowest counts, and its arguments are not told.
func TestSlowest(t *testing.T) {
	now := time.Now()
	entry := func(age, took time.Duration, args ...string) goredis.SlowLog {
		return goredis.SlowLog{Time: now.Add(-age), Duration: took, Args: args}
	}
	require.Empty(t, slowest("", nil, now, time.Second))
	require.Empty(t, slowest("", []goredis.SlowLog{entry(25*time.Hour, time.Minute, "KEYS"), entry(0, 10*time.Millisecond, "GET")}, now, time.Second))
	got := slowest("Node x: ", []goredis.SlowLog{entry(0, time.Second, "get", "a"), entry(time.Hour, 2*time.Second, "keys", "secret*")}, now, time.Second)
	require.Len(t, got, 1)
	require.Contains(t, got[0].Text, "Node x: One command (KEYS) lately kept the server busy for 2s")
	require.NotContains(t, got[0].Text, "secret")
}
