package redis

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/redisclaims"
)

// The backend's page lists these vectors. A change is a major version.
func TestWireGolden(t *testing.T) {
	s, n, other, _ := shared(t)
	name := "golden/{a}%" + t.Name()
	key := "lockport:golden/%7Ba%7D%25" + t.Name()
	req := n.Request(name)
	req.TTL = 9999500 * time.Microsecond
	lease := n.Takes(req)
	require.Equal(t, "lp1:"+req.Owner, do(t, s, "GET", key))
	require.InDelta(t, 9_500, do(t, s, "PTTL", key), 500, "at most 10 s: rounded up to milliseconds")
	last := peer.Must(strconv.ParseUint(do(t, s, "GET", "lockport.side:{}:last-token").(string), 10, 64))(t)
	require.GreaterOrEqual(t, last, lease.Grant().Token)
	require.Equal(t, int64(-1), do(t, s, "PTTL", "lockport.side:{}:last-token"), "for ever")
	require.Equal(t, int64(-2), do(t, s, "PTTL", "lockport.side:{"+key+"}:queue"))

	waiter := other.Request(name)
	other.Waits(waiter)
	queue := "lockport.side:{" + key + "}:queue"
	require.Equal(t, []any{waiter.Owner, "1"}, do(t, s, "ZRANGE", queue, 0, -1, "WITHSCORES"))
	require.InDelta(t, 28_500, do(t, s, "PTTL", queue), 1500)

	n.Frees(lease)
	require.LessOrEqual(t, do(t, s, "PTTL", queue), int64(1000), "after a call to the only waiter")
	lease = other.Takes(waiter)
	require.InDelta(t, 9_500, do(t, s, "PTTL", key), 500)
	other.Frees(lease)
	leaves(t, s, name)
}

// What redislock, redsync and node-redlock do: SET NX PX with a random value, then compare and delete.
func TestForeignValuesExclude(t *testing.T) {
	s, n, _, _ := shared(t)
	const compareAndDelete = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0`
	name := t.Name()
	key := key(name)
	require.Equal(t, "OK", do(t, s, "SET", key, "Zm9yZWlnbg==", "NX", "PX", 5000))
	req := n.Request(name)
	h := n.Waits(req)
	require.Equal(t, 100*time.Millisecond, h.Poll, "its release is not announced")
	require.InDelta(t, 5*time.Second, h.ExpiresIn, float64(time.Second))
	require.Equal(t, int64(1), do(t, s, "EVAL", compareAndDelete, 1, key, "Zm9yZWlnbg=="))
	lease := n.Takes(req)
	require.Nil(t, do(t, s, "SET", key, "x", "NX", "PX", 5000), "we exclude them")
	require.Equal(t, int64(0), do(t, s, "EVAL", compareAndDelete, 1, key, "x"))
	n.Frees(lease)

	require.Equal(t, "OK", do(t, s, "SET", key, "x", "PX", 18446744073710)) // 584 years overflow a time.Duration
	require.Greater(t, n.Waits(n.Request(name)).ExpiresIn, 1000*time.Hour)
	require.Greater(t, time.Until(peer.Shows(t, n, name).Expires), 1000*time.Hour)

	// Without a TTL, as left by an old SETNX.
	require.Equal(t, "OK", do(t, s, "SET", key, "for ever"))
	h = n.Waits(n.Request(name))
	require.Zero(t, h.ExpiresIn)
	require.ErrorIs(t, n.Break(t.Context(), name, "somebody else"), driver.ErrLost)
	require.NoError(t, n.Break(t.Context(), name, "for ever"))
	do(t, s, "DEL", queueOf(name))

	// A hash, like Redisson's locks.
	do(t, s, "HSET", key, "thread", 1)
	require.Equal(t, redisclaims.PollForeign, n.Waits(n.Request(name)).Poll)
	st := peer.Shows(t, n, name)
	require.True(t, st.Held && st.Foreign)
	require.NoError(t, n.Break(t.Context(), name, st.Owner))
	do(t, s, "DEL", queueOf(name))

	// A lease whose key was overwritten does not change the new value.
	lease = n.Takes(n.Request(name))
	do(t, s, "DEL", key)
	do(t, s, "HSET", key, "thread", 1)
	require.ErrorIs(t, peer.ErrOf(n.Renews(lease)), driver.ErrLost)
	require.ErrorIs(t, lease.Release(t.Context()), driver.ErrLost)
	require.Equal(t, int64(1), do(t, s, "EXISTS", key))
	do(t, s, "DEL", key)
}

func TestRedisPy(t *testing.T) {
	s, n, _, _ := shared(t)
	const python = "/usr/bin/python3" // Debian's, for which the package is
	if exec.Command(python, "-c", "import redis").Run() != nil {
		servers.NeedInstalled(t, &servers.NotInstalled{Program: "redis-py", Install: "apt-get install python3-redis (Debian)"})
	}
	name := t.Name()
	py := func(script string) string {
		t.Helper()
		out, err := exec.Command(python, "-c", "import redis, sys\nr = redis.Redis.from_url(sys.argv[1])\n"+
			"lock = lambda: redis.lock.Lock(r, sys.argv[2], timeout=5, blocking=False)\n"+script, s.URL(), key(name)).CombinedOutput()
		require.NoError(t, err, string(out))
		return strings.TrimSpace(string(out))
	}
	for _, req := range []driver.Request{n.Request(name), n.reading(name)} {
		lease := n.Takes(req)
		require.Equal(t, "False", py("print(lock().acquire())"))
		n.Frees(lease)
		require.Equal(t, "True", py("print(lock().acquire())"))
		req.Queue = false
		require.Equal(t, redisclaims.PollForeign, n.Waits(req).Poll)
		do(t, s, "DEL", key(name))
	}
	require.Equal(t, "True False True", py("l = lock(); a = l.acquire(); b = lock().acquire(); l.release(); print(a, b, lock().acquire())"))
	do(t, s, "DEL", key(name))
}
