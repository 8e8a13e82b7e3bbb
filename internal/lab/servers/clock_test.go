package servers

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// needClock skips or fails t where a server cannot have a clock of its own.
func needClock(t testing.TB) {
	t.Helper()
	err := ClockInstalled()
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	NeedInstalled(t, err)
}

// clockOf is by how much the clock of r is ahead of ours, which moves on while it is asked.
func clockOf(t *testing.T, r *Redis) time.Duration {
	reply := do(t, r, "TIME").([]any)
	s, err := strconv.ParseInt(reply[0].(string), 10, 64)
	require.NoError(t, err)
	us, err := strconv.ParseInt(reply[1].(string), 10, 64)
	require.NoError(t, err)
	return time.Until(time.Unix(s, us*1000))
}

func TestRedisClockJumps(t *testing.T) {
	needClock(t)
	r := NeedRedis(t, RedisOptions{Clock: true, Own: true})
	const jump, about = time.Hour, float64(10 * time.Second)
	require.InDelta(t, 0, clockOf(t, r), about)
	do(t, r, "SET", "short", "v", "PX", jump.Milliseconds()/2)
	do(t, r, "SET", "long", "v", "PX", 2*jump.Milliseconds())

	require.NoError(t, r.JumpClock(jump))
	require.Nil(t, do(t, r, "GET", "short"), "it expires at once")
	require.Equal(t, "v", do(t, r, "GET", "long"))
	require.InDelta(t, jump, clockOf(t, r), about)
	require.Nil(t, do(t, r, "EVAL", "return redis.call('GET', 'short')", 0), "scripts too")

	require.NoError(t, r.Restart(t.Context()))
	require.InDelta(t, jump, clockOf(t, r), about, "the clock is the machine's: it outlives the process")

	do(t, r, "SET", "k", "v", "PX", time.Minute.Milliseconds())
	require.NoError(t, r.JumpClock(-3*jump))
	require.InDelta(t, -2*jump, clockOf(t, r), about)
	require.Greater(t, do(t, r, "PTTL", "k"), 3*jump.Milliseconds(), "set back, a key lives longer")
}

func TestRedisWithoutClock(t *testing.T) {
	require.Error(t, NeedRedis(t, RedisOptions{Own: true}).JumpClock(time.Second))
	require.ErrorIs(t, SharedRedis(t).JumpClock(time.Second), errors.ErrUnsupported)
}
