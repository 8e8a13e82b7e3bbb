package redlock

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/redisclaims"
)

// The backend's page has this layout. A change is a major version.
func TestWireGolden(t *testing.T) {
	x := plainNodes(t, 3)
	a, b := newClient(t, x.url(), "golden"), newClient(t, x.url(), "other")
	name, at := "golden/{a}%", "lockport:golden/%7Ba%7D%25"
	queue := "lockport.side:{" + at + "}:queue"
	req := a.Request(name)
	req.TTL = 9999500 * time.Microsecond
	lease := a.Takes(req)
	require.Eventually(t, func() bool { return x.having(t, at) == 3 }, soon, time.Millisecond)
	waiter := b.Request(name)
	before := time.Now().UnixMicro()
	require.Equal(t, redisclaims.PollUnheard, b.Waits(waiter).Poll)
	for i, s := range x.servers {
		require.NoError(t, b.reaches(i))
		require.Equal(t, "lp1:"+req.Owner, do(t, s, "GET", at))
		require.InDelta(t, 8_000, do(t, s, "PTTL", at), 2000, "at most 10 s: rounded up to milliseconds")
		list := do(t, s, "ZRANGE", queue, 0, -1, "WITHSCORES").([]any)
		require.Len(t, list, 2)
		require.Equal(t, waiter.Owner, list[0])
		require.InDelta(t, before, peer.Must(strconv.ParseFloat(list[1].(string), 64))(t), 1e6, "when it began to wait, in µs")
		require.LessOrEqual(t, do(t, s, "PTTL", queue).(int64), int64(30_000))
		require.Equal(t, int64(2), do(t, s, "DBSIZE"), "no token")
	}
	b.Notified(waiter)
	require.Equal(t, redisclaims.PollHeard, b.Waits(waiter).Poll)
	a.Frees(lease)
	b.Frees(b.TakesSoon(waiter))
	for _, s := range x.servers {
		require.Eventually(t, func() bool { return do(t, s, "DBSIZE") == int64(0) }, soon, time.Millisecond)
	}
}

// What redsync, node-redlock and others do on every node: SET NX PX with a random value, then compare and delete.
func TestForeignValuesExclude(t *testing.T) {
	x := plainNodes(t, 3)
	a := newClient(t, x.url(), "a")
	set := []any{"SET", key("x"), "Zm9yZWlnbg==", "NX", "PX", 5000}
	x.each(t, false, does(set...), 0, 1, 2)
	req := a.Request("x")
	h := a.Waits(req)
	require.Equal(t, redisclaims.PollForeign, h.Poll, "its release is not announced")
	require.InDelta(t, 5*time.Second, h.ExpiresIn, float64(time.Second))
	st := peer.Shows(t, a, "x")
	require.Equal(t, []any{true, true, set[2]}, []any{st.Held, st.Foreign, st.Owner})
	require.ErrorIs(t, a.Break(t.Context(), "x", "somebody else"), driver.ErrLost)
	require.NoError(t, a.Break(t.Context(), "x", st.Owner))
	lease := a.TakesSoon(req)
	x.full(t, "x")
	x.each(t, false, func(s *servers.Redis) error { require.Nil(t, do(t, s, set...), "we exclude them"); return nil }, 0, 1, 2)
	a.Frees(lease)
	x.empty(t, "x")

	x.each(t, false, does("SET", key("x"), "x", "PX", 18446744073710), 0, 1, 2) // 584 years overflow a time.Duration
	require.Greater(t, a.Waits(a.Request("x")).ExpiresIn, 1000*time.Hour)
	x.each(t, false, does("PERSIST", key("x")), 0, 1, 2)
	require.Zero(t, a.Waits(a.Request("x")).ExpiresIn, "never")
	x.each(t, false, does("SET", key("y"), "lp1:g1"), 1)
	x.each(t, false, does("SET", key("y"), "lp1:g2"), 2)
	a.Waits(a.Request("y")) // comes first, but two dead claims keep their votes
}
