package redisscript

import (
	"fmt"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
)

// lockCall is a call of script, Acquire or Release, for owner on name.
func lockCall(script *Script, name, owner string) Call {
	key := Layout{Prefix: DefaultPrefix}.Key(name)
	keys, value := []string{key, Side(key, "queue"), LastToken(key, false)}, Value(fmt.Sprintf("%032s:test/1/x/y", owner))
	if script == Release {
		return script.Call(keys[:2], value)
	}
	return script.Call(keys, value, 10_000, "1", 1)
}

// sends sends calls as one batch, which must make that many requests.
func sends(t *testing.T, p *Pipe, requests int, calls ...Call) []Reply {
	t.Helper()
	require.Len(t, p.plan(calls), requests)
	n := peer.Must(p.nodeOf(t.Context(), calls[0]))(t)
	return p.send(t.Context(), n, calls)
}

func TestCallsOfOneScriptGoTogether(t *testing.T) {
	s := servers.SharedRedis(t)
	p := pipeOf(t, s.URL(), 0)
	const n = 50
	name := func(i int) string { return fmt.Sprint(t.Name(), i) }
	each := func(of func(i int) []Call) (calls []Call) {
		for i := range n {
			calls = append(calls, of(i)...)
		}
		return calls
	}
	for range 2 {
		// Load Release: calls of an unknown script go again, after the others.
		sends(t, p, 1, lockCall(Release, name(0), "z"), lockCall(Release, name(1), "z"))
		tokens := make(map[int]int64)
		for i, r := range sends(t, p, 1, each(func(i int) []Call { return []Call{lockCall(Acquire, name(i), "a")} })...) {
			require.NoError(t, r.Err)
			require.Greater(t, r.Value, int64(1_000_000_000_000_000))
			tokens[i] = r.Value.(int64)
		}
		// Each call gets its own reply.
		calls := each(func(i int) []Call {
			return []Call{lockCall(Release, name(i), "a"), lockCall(Acquire, name(i), "b"), lockCall(Release, name(i), "c"), echoCall(i)}
		})
		for i, r := range sends(t, p, 2+n, calls...) {
			require.NoError(t, r.Err)
			switch i % 4 {
			case 0:
				require.Equal(t, int64(1), r.Value)
			case 1:
				require.Greater(t, r.Value, tokens[i/4])
			case 3:
				require.Equal(t, fmt.Sprint(i/4), r.Value)
			}
		}
		does(t, s, "SCRIPT", "FLUSH")
		for _, r := range sends(t, p, 1, each(func(i int) []Call { return []Call{lockCall(Release, name(i), "b")} })...) {
			require.Equal(t, Reply{Value: int64(1)}, r)
		}
	}
}

// An error of one lock does not affect the others.
func TestAnErrorIsThatOfOneCall(t *testing.T) {
	s := servers.SharedRedis(t)
	p := pipeOf(t, s.URL(), 0)
	calls := []Call{lockCall(Acquire, t.Name()+"1", "a"), lockCall(Acquire, t.Name()+"2", "a"), lockCall(Acquire, t.Name()+"3", "a")}
	does(t, s, "RPUSH", calls[1].args[4], "no queue")
	replies := sends(t, p, 1, calls...)
	require.NoError(t, replies[0].Err)
	require.NoError(t, replies[2].Err)
	peer.SaysOneLine(t, replies[1].Err, driver.ErrRefused, "WRONGTYPE")
	require.Equal(t, int64(0), does(t, s, "EXISTS", calls[1].args[3]), "an error means that nothing was granted")
	for _, c := range calls {
		does(t, s, "DEL", c.args[3], c.args[4])
	}
}

// After the errors of combined calls, each later call of the same pipeline gets its own reply. go-redis does not read on after some errors in a list.
func TestErrorsOfCombinedCallsLeaveNoReplyBehind(t *testing.T) {
	s := servers.NeedRedis(t, servers.RedisOptions{})
	p := pipeOf(t, s.URL(), 0)
	both := []Call{lockCall(Acquire, "x", "a"), lockCall(Acquire, "y", "a")}
	for _, r := range sends(t, p, 1, both...) { // the server knows the script from now on
		require.NoError(t, r.Err)
	}
	does(t, s, "FLUSHALL")
	does(t, s, "CONFIG", "SET", "maxmemory", "1")
	replies := sends(t, p, 3, append(both, echoCall(7), echoCall(8))...)
	for _, r := range replies[:2] {
		peer.SaysOneLine(t, r.Err, driver.ErrUnavailable, "out of memory")
	}
	require.Equal(t, []Reply{{Value: "7"}, {Value: "8"}}, replies[2:])
}

// Combined calls that the server refuses because of one of them go separately.
func TestCallsThatAreRefusedTogetherGoAlone(t *testing.T) {
	s := servers.NeedRedis(t, servers.RedisOptions{Users: []string{"some on >secret ~lockport:mine* ~lockport.side:{lockport:mine* ~lockport.side:{}:* &* +@all"}})
	p := pipeOf(t, s.UserURL("some", "secret"), 0)
	replies := sends(t, p, 1, lockCall(Acquire, "mine", "a"), lockCall(Acquire, "yours", "a"))
	require.NoError(t, replies[0].Err)
	peer.SaysOneLine(t, replies[1].Err, driver.ErrRefused, "NOPERM")
}

// A failed WAIT makes only the outcome of calls that asked for it unknown, even if they went again because the server did not know the script.
func TestWaitIsOnlyTheirsWhoAsked(t *testing.T) {
	s := servers.NeedRedis(t, servers.RedisOptions{Users: []string{"some on >secret ~* &* +@all -wait"}})
	p := pipeOf(t, s.UserURL("some", "secret"), 1)
	kept := Script{acks: true}.from(echo.source)
	for range 2 {
		replies := sends(t, p, 2, kept.Call(nil, 1), echoCall(2))
		peer.SaysOneLine(t, replies[0].Unacked, driver.ErrUnknown, "waiting for replicas: NOPERM")
		require.Equal(t, Reply{Value: "2"}, replies[1])
	}
	does(t, s, "SCRIPT", "FLUSH")
	require.ErrorIs(t, p.Run(t.Context(), kept.Call(nil, 1)).Unacked, driver.ErrUnknown)
	require.NoError(t, p.Run(t.Context(), echoCall(1)).Err)

	other := servers.NeedRedis(t, servers.RedisOptions{Users: []string{"some on >secret ~* &* +@all"}})
	cluster := clusterOf(goredis.ClusterOptions{Username: "some", Password: "secret"}, s.Addr(), other.Addr())
	defer cluster.Close()
	for range 10 {
		r := NewPipe(cluster, 1, time.Second).Run(t.Context(), kept.Call([]string{"3560"}, 1)) // slot 0
		require.ErrorContains(t, r.Unacked, "NOPERM", "the node that ran the script gets the WAIT")
	}
}

// A malformed reply is no outcome: the script may have granted the claim.
func TestMalformedReplies(t *testing.T) {
	one, none := int64(1), int64(0)
	for _, value := range []any{
		nil, "1", []any{}, []any{"held", none, none, ""}, []any{none, "soon", none, ""}, []any{none, none, none}, []any{one, one},
		[]any{one, one, "waiters"}, []any{one, one, none, ""}, []any{int64(2), none}, []any{int64(3)}, []any{int64(4), none, none}, []any{int64(-1), none},
	} {
		require.ErrorIs(t, peer.ErrOf(Reply{Value: value}.Claimed()), driver.ErrUnknown, value)
	}
	replies := make([]Reply, 2)
	(&request{calls: []int{0, 1}}).deliver(replies, []any{one}, nil, nil)
	require.ErrorIs(t, replies[1].Err, driver.ErrUnknown, "one reply to two calls")
	lock := []any{"string", "lp1:a", one, none}
	for _, value := range []any{
		nil, lock[:3], []any{"string", "lp1:a", "ttl", none}, []any{"string", "lp1:a", one, "waiters"}, append(lock[:4:4], []any{}),
		append(lock[:4:4], []any{}, "waiters", none, []any{}), append(lock[:4:4], []any{}, none, nil, []any{}),
	} {
		_, _, err := Inspected("x", Reply{Value: value})
		require.ErrorIs(t, err, driver.ErrUnknown, value)
	}
	_, permits, err := Inspected("x", Reply{Value: append(lock[:4:4], []any{}, none, one, []any{"a"})})
	require.NoError(t, err)
	require.False(t, permits.Held)
}
