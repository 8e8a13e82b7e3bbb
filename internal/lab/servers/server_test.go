package servers

import (
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/worker"
)

// wantEmpty requires that whatever used dir as its folder for temporary files has cleaned up.
func wantEmpty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func do(t *testing.T, r *Redis, args ...any) any {
	t.Helper()
	reply, err := r.Do(t.Context(), args...)
	require.NoError(t, err)
	return reply
}

// TestFrozenMeansSilent would see an answer that slips out between the signal and the stop.
func TestFrozenMeansSilent(t *testing.T) {
	r := NeedRedis(t, RedisOptions{Own: true})
	for range 50 {
		require.NoError(t, r.Freeze())
		require.False(t, worker.Running(r.Pid()))
		require.NoError(t, r.Thaw())
	}
}

func TestPortTaken(t *testing.T) {
	other := NeedRedis(t, RedisOptions{Own: true}) // answers PING, so it must not be taken for the new one
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	taken := []int{other.port, listener.Addr().(*net.TCPAddr).Port}
	tried := 0
	r, err := startRedis(t.Context(), RedisOptions{}, redisRole{}, func(offset int) (int, error) {
		if tried++; tried <= len(taken) {
			return taken[tried-1], nil
		}
		return freePort(offset)
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	require.NotContains(t, taken, r.port)
	do(t, r, "SET", "k", "v")
	require.Nil(t, do(t, other, "GET", "k"))

	tried = 0
	_, err = startRedis(t.Context(), RedisOptions{}, redisRole{}, func(int) (int, error) { tried++; return other.port, nil })
	require.ErrorIs(t, err, errPortTaken)
	require.Equal(t, portAttempts, tried)
}

func TestFindSaysWhatToInstall(t *testing.T) {
	_, err := find("lockport-no-such-program", "apt-get install nothing")
	var missing *NotInstalled
	require.ErrorAs(t, err, &missing)
	require.ErrorContains(t, err, "lockport-no-such-program not found: apt-get install nothing")
}
