package redlock

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/redisclaims"
	"github.com/lockport/lockport/internal/redisscript"
)

// Without a majority nothing can be acquired. The error is one line, and comes as soon as that is certain. Abandon is then unknown, unless the claim
// has had no effect on the nodes that are away. Break is unknown too: it may have ended the hold.
func TestAMajorityIsAway(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"dead", "hung"} {
		t.Run(fault, func(t *testing.T) {
			x := plainNodes(t, 5)
			a := newClient(t, x.url(), "a")
			a.Frees(a.Takes(a.Request("before")))
			x.empty(t, "before")
			req, held := a.Request("x"), a.Request("held")
			a.Takes(held)
			x.full(t, "held")
			if fault == "dead" {
				x.each(t, true, (*servers.Redis).Kill, 0, 2, 4)
			} else {
				x.each(t, true, (*servers.Redis).Freeze, 0, 2, 4)
				peer.Fails(t, a, req, driver.ErrUnknown) // three may have granted it
				require.Error(t, a.Abandon(peer.Within(t, soon), req))
			}
			last, err := driver.Request{}, error(nil)
			peer.Until(t, func() bool { last = a.Request("y"); _, err = a.Try(last); return errors.Is(err, driver.ErrUnavailable) })
			peer.SaysOneLine(t, err, driver.ErrUnavailable, "3 of 5 nodes do not serve, and 3 are needed: 127.0.0.1:")
			require.ErrorIs(t, peer.ErrOf(a.Inspect(t.Context(), "x")), driver.ErrUnavailable)
			x.empty(t, "x") // the two votes were released
			a.Abandons(last)
			require.ErrorIs(t, a.Break(t.Context(), "held", held.Owner), driver.ErrUnknown)
			if fault == "hung" {
				x.each(t, false, (*servers.Redis).Thaw, 0, 2, 4)
				peer.Until(t, func() bool { return a.Abandon(t.Context(), req) == nil })
				a.Frees(a.TakesSoon(a.Request("z")))
			}
		})
	}
}

// Nodes whose memory is full refuse new claims only: they do not rest, nor do they because a caller gives up.
func TestFullNodes(t *testing.T) {
	x := plainNodes(t, 3)
	a, b := newClient(t, x.url(), "a"), newClient(t, x.url(), "b")
	held, awaited := a.Takes(a.Request("held")), a.Request("awaited")
	other := b.Takes(b.Request("awaited"))
	require.ErrorIs(t, peer.ErrOf(a.Inspect(peer.Within(t, 0), "held")), driver.ErrUnavailable)
	peer.Until(t, func() bool { a.Waits(awaited); return x.having(t, queueOf("awaited")) == 3 }) // the claim waits at every node
	x.each(t, false, does("CONFIG", "SET", "maxmemory", "1"), 0, 1, 2)
	for range 3 {
		a.Waits(awaited)
		peer.Extends(t, a, held)
		peer.Fails(t, a, a.Request("new"), driver.ErrUnavailable)
	}
	a.Frees(held)
	b.Frees(other)
	x.empty(t, "held")
	x.each(t, false, refuses, 1, 2)
	require.ErrorIs(t, a.Abandon(t.Context(), awaited), driver.ErrRefused, "by a majority")
	x.each(t, false, serves, 1, 2)
	a.Abandons(awaited)
}

// A release is lost if a majority certainly had nothing of the claim: its key is gone, or the node refused the claim, but not the release.
func TestReleaseThatSomeNodesRefuse(t *testing.T) {
	x := plainNodes(t, 3)
	a := newClient(t, x.url(), "a")
	for i, v := range []struct {
		claim, release, gone []int // nodes that refuse the claim; nodes that refuse the release; nodes that lost the key
		want                 error
	}{
		{nil, []int{0}, []int{1}, nil},
		{nil, []int{0, 1}, []int{2}, driver.ErrUnknown},
		{nil, []int{0}, []int{1, 2}, driver.ErrLost},
		{[]int{2}, []int{0}, []int{1}, driver.ErrLost},
	} {
		x.each(t, false, refuses, v.claim...)
		lease := a.Takes(a.Request("x"))
		lease.(*claim).waitsUntil(t, func() bool { return lease.(*claim).count(asked) == 0 })
		x.each(t, false, refuses, v.release...)
		x.each(t, false, does("DEL", key("x")), v.gone...)
		require.ErrorIs(t, a.Releases(lease), v.want, "row %d", i)
		_, forgotten, _ := a.claims.Find(lease.(*claim).Req)
		require.Equal(t, v.want != driver.ErrUnknown, forgotten, "row %d", i)
		x.each(t, false, serves, 0, 1, 2)
		x.empty(t, "x")
	}
	late := a.Takes(a.Request("x")).(*claim)
	late.waitsUntil(t, func() bool { late.votes[0].strayClaim, late.until = true, time.Now(); return late.count(asked) == 0 })
	x.each(t, false, does("DEL", key("x")), 1)
	require.ErrorIs(t, a.Releases(late), driver.ErrLost, "a node that refuses the claim from now on does not say whether it had the key")
}

// A renewal retakes the lock on a node that lost its data. A lock that lost its majority is lost, and nothing brings it back.
func TestNodesRestartEmpty(t *testing.T) {
	x := plainNodes(t, 5)
	a, b := newClient(t, x.url(), "a"), newClient(t, x.url(), "b")
	lease := a.Takes(a.Request("x"))
	x.full(t, "x")
	empty := func(s *servers.Redis) error { return s.RestartEmpty(t.Context()) }
	x.each(t, false, empty, 0, 3)
	require.Equal(t, 3, x.having(t, key("x")))
	peer.Until(t, func() bool { peer.Extends(t, a, lease); return x.having(t, key("x")) == 5 }) // taken again
	b.Waits(b.Request("x"))
	x.each(t, false, empty, 1, 2)
	b.Waits(b.Request("x"))

	x.each(t, false, empty, 4) // three of five lost it before the next renewal
	peer.Until(t, func() bool { _, err := a.Renews(lease); return errors.Is(err, driver.ErrLost) })
	peer.Always(t, 100*time.Millisecond, func() bool { return x.having(t, key("x")) <= 2 }, "retaken")
	require.ErrorIs(t, a.Releases(lease), driver.ErrLost)
	require.Eventually(t, func() bool { return x.having(t, key("x")) == 0 }, 2*soon, 10*time.Millisecond)
}

// A retake that arrives after the validity has ended, or after the claim was abandoned, does nothing.
func TestNothingIsRetakenTooLate(t *testing.T) {
	x := plainNodes(t, 3)
	a := newClient(t, x.url(), "a")
	lease := a.Takes(a.Request("x")).(*claim)
	x.full(t, "x")
	seconds := peer.Must(strconv.ParseInt(do(t, x.servers[0], "TIME").([]any)[0].(string), 10, 64))(t)
	gone := func() { do(t, x.servers[0], "DEL", key("x")) }
	retake := func() { lease.retakeAt(0, 1000*seconds) }
	gone()
	retake()
	require.Equal(t, 3, x.having(t, key("x")), "in time")
	require.InDelta(t, 9_500, do(t, x.servers[0], "PTTL", key("x")), 500)
	gone()
	until := lease.until
	lease.until = time.Now().Add(-time.Second) // the validity has ended
	retake()
	require.Equal(t, 2, x.having(t, key("x")))
	lease.until = until
	do(t, x.servers[0], "SET", key("x"), "somebody")
	retake()
	require.Equal(t, "somebody", do(t, x.servers[0], "GET", key("x")))
	gone()
	for i := range a.nodes { // with another lock key, so that x keeps its keys
		require.NoError(t, a.answer(i, redisscript.Abandon, []string{"elsewhere", lease.keys[1]}, lease.value, "60000"))
	}
	retake()
	require.Equal(t, 2, x.having(t, key("x")), "the claim was abandoned")
	other := a.Takes(a.Request("y")).(*claim)
	a.Frees(other)
	x.empty(t, "y")
	other.retakeAt(0, 1000*seconds)
	require.Zero(t, x.having(t, key("y")), "the claim was released")
}

// A node that hangs for long delays no claims and uses no memory.
func TestHungNodePilesNothingUp(t *testing.T) {
	x := newNodes(t, 5, servers.RedisOptions{})
	a := newClient(t, x.proxied(), "a")
	a.Frees(a.Takes(a.Request("x")))
	x.empty(t, "x")
	x.proxies[2].Freeze()
	before := runtime.NumGoroutine()
	a.TTL = 2 * time.Second // an upper bound for a key left by a claim whose connection was given up
	for range 4 * maxUnanswered {
		a.Frees(a.Takes(a.Request("x")))
	}
	require.Less(t, runtime.NumGoroutine(), before+2*maxUnanswered+100, "a claim and a release per unanswered request, not one per claim")
	x.proxies[2].Restore()
	x.empty(t, "x")
	require.Eventually(t, func() bool {
		lease := a.Takes(a.Request("y"))
		defer a.Frees(lease)
		return x.having(t, key("y")) == len(x.servers)
	}, soon, 20*time.Millisecond, "the node is asked again")
}

// A failed claim is released on all nodes, even where its answer has not come yet, or was lost. A claim that waits can still win there.
func TestFailedClaimIsGivenBackEverywhere(t *testing.T) {
	x := plainNodes(t, 5)
	a := newClient(t, x.proxied(), "a")
	a.Frees(a.Takes(a.Request("x")))
	x.empty(t, "x")
	x.foreign(t, 0, 1)
	require.False(t, peer.Shows(t, a, "x").Held, "a minority has it")
	lost := x.proxies[3].DropReply(func(request []byte) bool { return isOp(conformance.OpAcquire, request) })
	x.proxies[4].Freeze() // two for another client, one for us, one whose answer is lost, one silent
	req, once := a.Request("x"), peer.Once(a.Request("x"))
	c := peer.Must(a.claims.Enter(req))(t)
	require.Equal(t, redisclaims.PollForeign, a.Waits(req).Poll)
	c.mu.Lock()
	require.False(t, c.votes[4].claiming && c.votes[4].undoing, "a release waits for its claim")
	c.mu.Unlock()
	<-lost
	require.Eventually(t, func() bool { return x.having(t, key("x")) == 2 }, soon, time.Millisecond, "a vote without an answer is released")
	x.proxies[4].Restore()
	require.Eventually(t, func() bool { return a.reaches(4) == nil }, soon, time.Millisecond)
	require.Eventually(t, func() bool { return do(t, x.servers[4], "EXISTS", key("x")) == int64(0) }, soon, time.Millisecond)
	c.waitsUntil(t, func() bool { return c.count(granted) == 0 }) // the late vote does not count
	a.Waits(once)
	_, forgotten, _ := a.claims.Find(once)
	require.True(t, forgotten)
	x.each(t, false, does("DEL", key("x")), 0, 1)
	a.TakesSoon(req)
	x.full(t, "x")
}

// A claim that arrives after it was abandoned is refused, so that no majority can grant it.
func TestAbandonedClaimIsRefusedWhenItArrives(t *testing.T) {
	x := plainNodes(t, 3)
	direct, a := newClient(t, x.url(), "direct"), newClient(t, x.proxied(), "a")
	a.Frees(a.Takes(a.Request("warm-up")))
	x.proxies.Each((*faultproxy.Proxy).Freeze)
	req := a.Request("x")
	c := peer.Must(a.claims.Enter(req))(t)
	c.votes[0].strayClaim = true // as after an earlier lost answer
	ctx := peer.Within(t, 100*time.Millisecond)
	err := peer.ErrOf(a.TryAcquire(ctx, req))
	require.ErrorIs(t, err, driver.ErrUnknown)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	go func() { _ = a.Abandon(ctx, req) }()
	c.waitsUntil(t, func() bool { return c.votes[0].claiming && c.votes[0].undoing }) // it does not wait for its claim
	direct.Abandons(req)
	x.proxies.Each((*faultproxy.Proxy).Restore)
	require.NoError(t, a.reaches(0))
	require.Less(t, x.having(t, key("x")), 2) // a majority refuses; at the last node, the claim may have come before its abandoning
	peer.Until(t, func() bool { return x.having(t, key("x")) == 0 })
	peer.Fails(t, direct, req, driver.ErrRefused)
	direct.Frees(direct.Takes(direct.Request("x")))
	for _, s := range x.servers {
		require.InDelta(t, 55_000, do(t, s, "PTTL", queueOf("x")), 5_000, "refused for a minute")
	}
}

// An abandoned claim leaves the queues that it joined, also those of nodes to which its last request was not sent, and joins none any more.
func TestAbandonedClaimLeavesEveryQueue(t *testing.T) {
	x := plainNodes(t, 3)
	a, b := newClient(t, x.url(), "a"), newClient(t, x.url(), "b")
	lease, req, late := a.Takes(a.Request("x")), b.Request("x"), b.Request("x")
	x.full(t, "x")
	abandoned := make(chan struct{})
	b.nodes[2].inOrder("x", func() { <-abandoned }) // its requests wait until then
	b.Waits(late)
	b.Abandons(late)
	close(abandoned)
	b.Waits(req)
	peer.Until(t, func() bool { // a late answer to the first request ends a rest
		b.rests(0, noAnswer, time.Second)
		b.rests(1, noAnswer, time.Second)
		return errors.Is(peer.ErrOf(b.Try(req)), driver.ErrUnavailable)
	})
	peer.Until(t, func() bool { return b.Abandon(t.Context(), req) == nil })
	for i, s := range x.servers {
		b.nodes[i].settle(t.Context())
		require.Nil(t, do(t, s, "ZSCORE", queueOf("x"), late.Owner))
		peer.Until(t, func() bool { return do(t, s, "ZSCORE", queueOf("x"), req.Owner) == nil })
	}
	a.Frees(lease)
}
