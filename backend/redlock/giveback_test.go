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
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/redisscript"
)

// isOp recognizes requests by the scripts that they call.
var isOp = peer.Ops{
	conformance.OpAcquire: redisscript.QuorumAcquire.Names, conformance.OpRenew: redisscript.QuorumRenew.Names, conformance.OpRelease: redisscript.QuorumRelease.Names,
}.Is

// foreign gives the lock on x to a foreign client on some nodes.
func (x *nodes) foreign(t testing.TB, which ...int) {
	x.each(t, false, does("SET", key("x"), "somebody", "PX", 60_000), which...)
}

// waitsUntil waits until ok, which is called with the mutex held.
func (c *claim) waitsUntil(t testing.TB, ok func() bool) {
	t.Helper()
	peer.Until(t, func() bool { c.mu.Lock(); defer c.mu.Unlock(); return ok() })
}

// half makes a claim that only the first node has granted: a foreign client holds x on the others, whose proxies are frozen. done is its outcome.
func (x *nodes) half(t *testing.T, a *client, req driver.Request) (c *claim, done <-chan error) {
	a.Frees(a.TakesSoon(a.Request("warm-up"))) // the first requests of a client may exceed the node timeout on a slow machine
	x.empty(t, "warm-up")                      // no node has a request under way
	x.foreign(t, 1, 2)
	x.proxies[1].Freeze()
	x.proxies[2].Freeze()
	c = peer.Must(a.claims.Enter(req))(t)
	outcome := make(chan error, 1)
	go func() { outcome <- peer.ErrOf(a.Try(req)) }()
	c.waitsUntil(t, func() bool { return c.votes[0].state == granted })
	return c, outcome
}

// releasing makes a claim on x that only the first node grants: a foreign client holds x on the others. The vote's release is held up, and times out.
func (x *nodes) releasing(t *testing.T, a *client) (driver.Request, *claim) {
	req := a.Request("x")
	c, done := x.half(t, a, req)
	x.proxies[0].Freeze()
	before := x.releases.Load()
	x.proxies[1].Restore()
	x.proxies[2].Restore()
	require.ErrorIs(t, <-done, driver.ErrHeld)
	peer.Until(t, func() bool { return x.releases.Load() > before })
	return req, c
}

// noting calls release before it writes a release.
type noting struct {
	net.Conn
	release func()
}

func (n noting) Write(p []byte) (int, error) {
	if isOp(conformance.OpRelease, p) {
		n.release()
	}
	return n.Conn.Write(p)
}

// detour makes a client that reaches the first node through its proxy until another is called. It calls release before it writes a release there.
func (x *nodes) detour(t *testing.T, release func()) (a *client, another func()) {
	var way atomic.Value
	way.Store(x.proxies[0].Addr())
	a = clientOn(t, x, func(i int, o *goredis.Options) {
		o.Addr, o.ReadTimeout, o.ContextTimeoutEnabled = x.proxies[i].Addr(), 700*time.Millisecond, true
		if i == 0 {
			o.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, network, way.Load().(string))
				return noting{conn, func() { x.releases.Add(1); release() }}, err
			}
		}
	})
	return a, func() {
		way.Store(x.servers[0].Addr())
		peer.Until(t, func() bool { return a.reaches(0) == nil })
	}
}

// A late release takes no vote that counts: its node's vote does not, for a claim made again while the release is under way or has timed out.
func TestLateGiveBackTakesNothing(t *testing.T) {
	x := plainNodes(t, 3)
	a, another := x.detour(t, func() {})
	req, c := x.releasing(t, a)
	another() // the node answers again
	do(t, x.servers[1], "DEL", key("x"))
	a.Waits(req) // the release may arrive after this claim
	c.waitsUntil(t, func() bool { return c.votes[0].strayUndo })
	a.Waits(req)
	do(t, x.servers[2], "DEL", key("x"))
	lease := a.TakesSoon(req)
	do(t, x.servers[0], "SET", key("x"), "lp1:"+req.Owner, "PX", 10_000) // like a late claim
	x.foreign(t, 2)
	require.ErrorIs(t, peer.ErrOf(a.Renews(lease)), driver.ErrUnknown, "one vote counts, one may vanish, one is gone")
	x.proxies[0].Restore() // the late release arrives
	peer.Until(t, func() bool { return do(t, x.servers[0], "EXISTS", key("x")) == int64(0) })
}

// Nor does the vote of a node count that is not asked again while the release is under way, because it rests, or that is to be asked after it.
func TestGiveBackUnderWayAtANodeThatRests(t *testing.T) {
	t.Parallel()
	for _, pause := range []time.Duration{0, time.Minute} {
		x := newNodes(t, 3, servers.RedisOptions{})
		warm := newClient(t, x.url(), "warm")
		warm.Frees(warm.Takes(warm.Request("warm-up"))) // the nodes know the scripts
		x.empty(t, "warm-up")
		a, _ := x.detour(t, func() { <-t.Context().Done() })
		for i := range x.servers {
			peer.Until(t, func() bool { return a.reaches(i) == nil }) // it has a connection
		}
		x.foreign(t, 1, 2)
		req := a.Request("x")
		a.Waits(req)
		peer.Until(t, func() bool { return x.releases.Load() > 0 })
		x.each(t, false, does("DEL", key("x")), 1, 2)
		a.rests(0, "as after a failed dial", pause)
		lease := a.Takes(req)
		a.rests(0, "", 0)
		x.each(t, true, (*servers.Redis).Kill, 2)
		require.ErrorIs(t, peer.ErrOf(a.Renews(lease)), driver.ErrUnknown, "one vote counts, one may vanish, one is gone")
	}
}

// If a majority needs such a node, another claim must be made.
func TestLateGiveBackMakesRoomForAnotherClaim(t *testing.T) {
	x := plainNodes(t, 3)
	a, another := x.detour(t, func() {})
	req, c := x.releasing(t, a)
	c.waitsUntil(t, func() bool { return c.votes[0].strayUndo })
	another()
	do(t, x.servers[1], "DEL", key("x"))
	x.each(t, true, (*servers.Redis).Kill, 2)
	peer.Until(t, func() bool { return errors.Is(peer.Fails(t, a, req), driver.ErrUnknown) })
	require.False(t, peer.Shows(t, a, "x").Held, "a minority is away")
	a.Abandons(req)
	a.Frees(a.TakesSoon(a.Request("x")))
	x.empty(t, "x")
}

// Abandon waits for slow nodes without which other claims have no majority: a dead node does not count as free.
func TestAbandonMakesRoomForAnotherClaim(t *testing.T) {
	x := plainNodes(t, 5)
	a := newClient(t, x.proxied(), "a")
	a.rests(0, "as after a failed dial", time.Minute)
	req := a.Request("x")
	a.Takes(req)
	peer.Until(t, func() bool { return x.having(t, key("x")) == 4 })
	for _, p := range x.proxies[3:] {
		p.Delay(100 * time.Millisecond) // each way
	}
	a.Abandons(req)
	require.LessOrEqual(t, x.having(t, key("x")), 1)
}

// A release waits for a retake in flight, which would bring the key back. If the retake's answer was lost, the node refuses it when it arrives late.
func TestReleaseBeforeARetake(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		x := newNodes(t, 3, servers.RedisOptions{})
		a, another := x.detour(t, func() {})
		a.Frees(a.TakesSoon(a.Request("warm-up"))) // the first request to a node may take too long on a slow machine
		lease := a.TakesSoon(a.Request("x")).(*claim)
		x.full(t, "x")
		do(t, x.servers[0], "DEL", key("x"))
		lease.retakeAt(0, 0) // too late, but the node knows the script from now on
		x.proxies[0].Freeze()
		seconds := peer.Must(strconv.ParseInt(do(t, x.servers[0], "TIME").([]any)[0].(string), 10, 64))(t)
		a.nodes[0].inOrder("x", func() { lease.retakeAt(0, 1000*seconds) })
		lease.waitsUntil(t, func() bool { return lease.votes[0].claiming || lease.votes[0].strayClaim }) // a stall may outlast the time for the answer
		if lost {
			lease.waitsUntil(t, func() bool { return lease.votes[0].strayClaim })
			another()
		}
		began := time.Now()
		a.Frees(lease)
		require.Less(t, time.Since(began), a.o.NodeTimeout, "it waits for a majority only")
		if lost {
			a.nodes[0].settle(peer.Within(t, soon))
		}
		x.proxies[0].Restore()
		peer.Until(t, func() bool { return a.reaches(0) == nil && do(t, x.servers[0], "EXISTS", key("x")) == int64(0) })
		if lost {
			peer.Always(t, 200*time.Millisecond, func() bool { return do(t, x.servers[0], "EXISTS", key("x")) == int64(0) }, "retaken")
		}
	}
}

// A node that refuses a release, and then the next claim, still has the vote: the lease's release asks it too.
func TestVoteSurvivesARefusedClaim(t *testing.T) {
	x := plainNodes(t, 3)
	a := newClient(t, x.proxied(), "a")
	req := a.Request("x")
	req.TTL = time.Minute // its end must not free the first node
	c, done := x.half(t, a, req)
	do(t, x.servers[0], "CONFIG", "SET", "min-replicas-to-write", "1") // it refuses all writes
	x.proxies[1].Restore()
	x.proxies[2].Restore()
	require.ErrorIs(t, <-done, driver.ErrHeld)
	a.nodes[0].settle(t.Context()) // the release was refused
	x.each(t, false, does("DEL", key("x")), 1, 2)
	a.rests(0, "", 0)
	lease := a.Takes(req)
	c.waitsUntil(t, func() bool { return c.votes[0].state == failed })
	do(t, x.servers[0], "CONFIG", "SET", "min-replicas-to-write", "0")
	peer.Always(t, mostAgain+100*time.Millisecond, func() bool { return x.having(t, key("x")) == 3 }, "a claim ends an earlier release")
	a.rests(0, "", 0)
	a.Frees(lease)
	x.empty(t, "x")
}
