package redlock

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/redisscript"
)

// isOp tells requests apart by the scripts that they call.
func isOp(op conformance.Op, request []byte) bool {
	switch op {
	case conformance.OpAcquire:
		return redisscript.QuorumAcquire.Names(request)
	case conformance.OpRenew:
		return redisscript.QuorumRenew.Names(request)
	case conformance.OpRelease:
		return redisscript.QuorumRelease.Names(request)
	}
	return true
}

// foreign gives the lock on x to somebody who knows nothing of lockport, on some nodes.
func (x *nodes) foreign(t testing.TB, which ...int) {
	for _, i := range which {
		do(t, x.servers[i], "SET", key("x"), "somebody", "PX", 60_000)
	}
}

// waitsUntil waits until ok, which is called with the mutex held.
func (c *claim) waitsUntil(t testing.TB, ok func() bool) {
	t.Helper()
	peer.Until(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return ok()
	})
}

// taint makes a claim on x that the first node grants and the others, which have it for somebody else, do not; the request to give the vote back is held
// up on its way to the first node, and given up.
func (x *nodes) taint(t *testing.T, a *client) driver.Request {
	a.Frees(a.Takes(a.Request("warm-up")))
	x.foreign(t, 1, 2)
	x.proxies[1].Freeze()
	x.proxies[2].Freeze()
	req := a.Request("x")
	c := a.claims.Enter(req).(*claim)
	done := make(chan error, 1)
	go func() {
		_, err := a.Try(req)
		done <- err
	}()
	c.waitsUntil(t, func() bool { return c.votes[0].state == granted })
	x.proxies[0].Freeze()
	x.proxies[1].Restore()
	x.proxies[2].Restore()
	require.ErrorIs(t, <-done, driver.ErrHeld)
	c.waitsUntil(t, func() bool { return c.votes[0].dead })
	return req
}

// A vote that was to be given back, without an answer, does not count when the same claim is made again: it may go at any time.
func TestVoteThatIsBeingGivenBackDoesNotCount(t *testing.T) {
	t.Parallel()
	x := plainNodes(t, 3)
	a := newClient(t, x.proxied()+"?node_timeout=300ms", "a")
	req := x.taint(t, a)
	do(t, x.servers[1], "DEL", key("x"))
	a.Waits(req)
	x.proxies[0].Restore()
	peer.Until(t, func() bool { return a.reaches(0) == nil })
	a.Waits(req)
	do(t, x.servers[2], "DEL", key("x"))
	a.Frees(a.TakesSoon(req))
	x.empty(t, "x")
}

// A claim that too few granted asks nodes whose answers were lost to give back what they may have granted: nobody will ask them later.
func TestVotesWhoseAnswersWereLostAreGivenBack(t *testing.T) {
	t.Parallel()
	x := plainNodes(t, 5)
	a := newClient(t, x.proxied(), "a")
	a.Frees(a.Takes(a.Request("warm-up")))
	x.foreign(t, 2, 3)
	var lost []<-chan struct{}
	for _, p := range x.proxies[:2] {
		lost = append(lost, p.DropReply(func(request []byte) bool { return isOp(conformance.OpAcquire, request) }))
	}
	a.Waits(a.Request("x"))
	for _, l := range lost {
		<-l
	}
	require.Eventually(t, func() bool { return x.having(t, key("x")) == 2 }, soon, time.Millisecond, "the other's votes")
}

// detour are nodes of which the first is reached by its proxy until told to go past it.
func (x *nodes) detour(t *testing.T) (a *client, another func()) {
	var way atomic.Value
	way.Store(x.proxies[0].Addr())
	a = clientOn(t, x, func(i int, o *goredis.Options) {
		o.Addr, o.ReadTimeout, o.ContextTimeoutEnabled = x.proxies[i].Addr(), 100*time.Millisecond, true
		if i == 0 {
			o.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, network, way.Load().(string))
			}
		}
	})
	return a, func() {
		way.Store(x.servers[0].Addr())
		peer.Until(t, func() bool { return a.reaches(0) == nil })
	}
}

// A request to give a vote back that comes late, by a connection that was given up, takes no vote that counts: that node's no longer do.
func TestLateGiveBackTakesNothing(t *testing.T) {
	t.Parallel()
	x := plainNodes(t, 3)
	a, another := x.detour(t)
	req := x.taint(t, a)
	another() // by which the node is well
	do(t, x.servers[1], "DEL", key("x"))
	a.Waits(req)
	do(t, x.servers[2], "DEL", key("x"))
	lease := a.TakesSoon(req)
	do(t, x.servers[0], "SET", key("x"), "lp1:"+req.Owner, "PX", 10_000) // as a claim that comes late would
	x.foreign(t, 2)
	_, err := a.Renews(lease)
	require.ErrorIs(t, err, driver.ErrUnknown, "one that counts, one that may go, one that is gone")
	x.proxies[0].Restore() // here it comes
	peer.Until(t, func() bool { return do(t, x.servers[0], "EXISTS", key("x")) == int64(0) })
}

// Where nothing but such a node is left for a majority, another claim must be made.
func TestLateGiveBackMakesRoomForAnotherClaim(t *testing.T) {
	t.Parallel()
	x := plainNodes(t, 3)
	a, another := x.detour(t)
	req := x.taint(t, a)
	another()
	do(t, x.servers[1], "DEL", key("x"))
	x.kill(t, 2)
	require.Eventually(t, func() bool {
		_, err := a.Try(req)
		return errors.Is(err, driver.ErrUnknown)
	}, soon, 10*time.Millisecond)
	a.Abandons(req)
	a.Frees(a.TakesSoon(a.Request("x")))
	x.empty(t, "x")
}

// A release waits for a request to take the lock again, which is on its way and would bring the key back; where its answer is lost, the node refuses it when
// it arrives, by a connection that was given up.
func TestReleaseBeforeARetake(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		x := plainNodes(t, 3)
		a, another := x.detour(t)
		lease := a.Takes(a.Request("x")).(*claim)
		x.full(t, "x")
		do(t, x.servers[0], "DEL", key("x"))
		x.proxies[0].Freeze()
		seconds, err := strconv.ParseInt(do(t, x.servers[0], "TIME").([]any)[0].(string), 10, 64)
		require.NoError(t, err)
		at := time.Now()
		a.nodes[0].inOrder("x", func() { lease.retakeAt(0, 1000*seconds, at) })
		lease.waitsUntil(t, func() bool { return lease.votes[0].flying })
		if lost {
			lease.waitsUntil(t, func() bool { return lease.votes[0].loose })
			another()
		}
		a.Frees(lease)
		if lost {
			ctx, cancel := context.WithTimeout(t.Context(), soon)
			defer cancel()
			a.nodes[0].settle(ctx)
		}
		x.proxies[0].Restore()
		peer.Until(t, func() bool { return a.reaches(0) == nil })
		peer.Until(t, func() bool { return do(t, x.servers[0], "EXISTS", key("x")) == int64(0) })
		require.Never(t, func() bool { return lost && do(t, x.servers[0], "EXISTS", key("x")) == int64(1) }, 200*time.Millisecond, time.Millisecond)
	}
}
