package redisscript

import (
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

// waitForbidden is a pipe that waits for a replica, to a server that forbids its user to WAIT.
func waitForbidden(t *testing.T) (*Pipe, *servers.Redis) {
	s, o := asUser(t, "~* &* +@all -wait")
	client := goredis.NewClient(o)
	t.Cleanup(func() { _ = client.Close() })
	p := NewPipe(client, 1, time.Second)
	t.Cleanup(p.Close)
	return p, s
}

// A call whose WAIT fails has an unknown outcome. One that did not ask for replicas has nothing to do with what became of the WAIT of others beside it.
func TestWaitIsOnlyTheirsWhoAsked(t *testing.T) {
	p, _ := waitForbidden(t)
	asks, asksNot := p.newCall(t.Context(), echo.withSource(echoArgs(1)), true), p.newCall(t.Context(), echo.withSource(echoArgs(2)), false)
	require.NoError(t, p.submit(t.Context(), asks, asksNot))
	r := p.await(t.Context(), asks)
	require.ErrorIs(t, r.Err, driver.ErrUnknown)
	require.ErrorContains(t, r.Err, "waiting for replicas")
	require.ErrorContains(t, r.Err, "NOPERM")
	require.Equal(t, Reply{Value: "2"}, p.await(t.Context(), asksNot))
}

// Calls that were refused together go again, one by one, and with them the WAIT: for which the server has the time that it is given for one exchange.
func TestWaitHasItsTimeAgain(t *testing.T) {
	s := servers.NeedRedis(t, servers.RedisOptions{})
	o, err := goredis.ParseURL(s.URL())
	require.NoError(t, err)
	const wait = time.Second
	o.ReadTimeout = wait * 3 / 2
	w := merging(t, o)
	run := func() []*call {
		calls := []*call{lockCall(Acquire, "1", "a"), lockCall(Acquire, "2", "a"), {waits: true, args: []any{"wait", 1, wait.Milliseconds()}}}
		w.runAll(t.Context(), calls)
		return calls
	}
	run()
	for _, args := range [][]any{{"SCRIPT", "FLUSH"}, {"SCRIPT", "LOAD", Acquire.source}} { // but not the one for many
		_, err := s.Do(t.Context(), args...)
		require.NoError(t, err)
	}
	_, _, err = w.run(t.Context(), []any{ping}) // it has rested
	require.NoError(t, err)
	began := time.Now()
	calls := run()
	require.GreaterOrEqual(t, time.Since(began), 2*wait, "they did not go again")
	for _, c := range calls {
		require.NoError(t, c.err)
	}
	require.EqualValues(t, 0, calls[2].value, "replicas")
}

func TestNumber(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "-2": -2, "123456789012345678": 123456789012345678, "8000000000000000000": 8000000000000000000,
		"-8000000000000000000": -8000000000000000000, "9223372036854775807": 1<<63 - 1,
	} {
		n, ok := number([]byte(text))
		require.True(t, ok, text)
		require.Equal(t, want, n)
	}
	for _, text := range []string{"", "-", "+1", "1a", "9223372036854775808", "+123456789012345678", "99999999999999999999999"} {
		_, ok := number([]byte(text))
		require.False(t, ok, text)
	}
}

// A call that is made again, since the server did not know the script, waits for replicas as it would have at first.
func TestWhatIsMadeAgainWaitsForReplicas(t *testing.T) {
	p, s := waitForbidden(t)
	for _, run := range []func() Reply{
		func() Reply { return p.Run(t.Context(), echo, echoArgs(1), true) },
		func() Reply { return p.RunAll(t.Context(), echo, [][]any{echoArgs(1)}, true)[0] },
	} {
		_, err := s.Do(t.Context(), "SCRIPT", "FLUSH")
		require.NoError(t, err)
		require.ErrorIs(t, run().Err, driver.ErrUnknown, "the server forbids to wait")
	}
}
