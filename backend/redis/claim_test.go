package redis

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/redisscript"
)

// A claim, or an Attach, that arrives after it was abandoned is refused: the network may deliver requests late.
func TestAbandonedClaimIsRefusedWhenItArrives(t *testing.T) {
	s, direct, other := alone(t)
	for mode, as := range map[string]func(*node, string) driver.Request{"alone": (*node).Request, "reader": (*node).reading, "permit": (*node).permit} {
		n, proxy := proxied(t, s)
		n.Frees(n.Takes(as(n, "warm-up"+mode)))
		req := as(n, mode)
		proxy.Freeze()
		ctx, cancel := context.WithCancel(t.Context())
		peer.OnRequest(proxy, 1, cancel)
		_, err := n.TryAcquire(ctx, req)
		require.ErrorIs(t, err, driver.ErrUnknown, mode)
		require.ErrorIs(t, err, context.Canceled, mode)
		require.NoError(t, direct.Abandon(t.Context(), req), "over a connection that is not frozen")
		before := n.asked(s)
		proxy.Restore()
		require.Eventually(t, func() bool { return n.asked(s) > before }, soon, time.Millisecond, "the claim arrives")
		peer.Fails(t, direct, req, driver.ErrRefused)
		next := direct.Request(req.Name) // not in the queue
		lease := direct.Takes(next)
		if req.Permits == 0 { // permits have a queue of their own
			_, err = other.Attach(t.Context(), driver.Request{Name: req.Name, Owner: req.Owner, TTL: req.TTL}, next.Owner, lease.Grant().Token)
			require.ErrorIs(t, err, driver.ErrRefused, "an Attach that arrives late")
			other.Waits(other.Request(req.Name)) // neither a waiter nor its call shortens the minute
		}
		direct.Frees(lease)
		queue := side(req.Name, map[int]string{0: redisscript.QueueKey, 2: permitsQueueKey}[req.Permits])
		require.InDelta(t, 55_000, do(t, s, "PTTL", queue), 5_000, "refused for a minute")
	}
}

func TestTenThousandRenewalsAreAFewRoundTrips(t *testing.T) {
	s := servers.NeedRedis(t, servers.RedisOptions{})
	n := newNode(t, s.URL(), "a")
	n.TTL = time.Minute
	const locks = 10_000
	leases, results := n.many(locks)
	n.RenewBatch(t.Context(), leases[:1], results[:1]) // the server knows the script
	do(t, s, "CONFIG", "RESETSTAT")
	sent := time.Now()
	n.RenewBatch(t.Context(), leases, results)
	require.Equal(t, 29, n.asked(s), "in one pipeline")
	for _, r := range results {
		require.NoError(t, r.Err)
		require.False(t, r.Until.Before(sent.Add(n.TTL)))
	}
	n.freesAll(leases)
	require.Equal(t, int64(1), do(t, s, "DBSIZE"), "only the last token is left")
	_, unknown, _ := n.claims.Find(leases[0].(*claim).Req)
	require.True(t, unknown, "a released claim is forgotten")
}

func TestReplicasMustAcknowledge(t *testing.T) {
	t.Parallel()
	master := servers.NeedRedis(t, servers.RedisOptions{})
	replica := servers.NeedReplica(t, master)
	n := nodeOn(t, newClient(t, master.URL(), prompt), "a", Options{Replicas: 1, WaitTimeout: 300 * time.Millisecond})
	lease := n.Takes(n.Request(t.Name()))
	require.Equal(t, do(t, master, "GET", key(t.Name())), do(t, replica, "GET", key(t.Name())))
	require.True(t, peer.Extends(t, n, lease).After(lease.Grant().Until))

	require.NoError(t, replica.Freeze())
	require.ErrorIs(t, peer.ErrOf(n.Renews(lease)), driver.ErrUnknown, "no promise that a fail-over would break")
	n.Waits(peer.Once(n.Request(t.Name()))) // whatever the replicas say
	n.Frees(lease)
	_, err := peer.Client(t, n.Backend).TryAcquire(t.Context(), t.Name())
	require.ErrorIs(t, err, driver.ErrUnavailable)
	require.ErrorContains(t, err, "only 0 of 1 replicas")
	peer.Until(t, func() bool { return do(t, master, "EXISTS", key(t.Name())) == int64(0) }) // released
	require.NoError(t, replica.Thaw())
	peer.Until(t, func() bool { lease, err = n.Try(n.Request(t.Name())); return err == nil })
	n.Frees(lease)
}

// Abandon works on a full server, and removes what is no longer refused. Renewals and Attach work there too.
func TestAbandonOnAFullServer(t *testing.T) {
	s, a, other := alone(t) // for other the claim may still arrive
	var refused []any
	for _, req := range []driver.Request{a.Request("x"), a.reading("x")} {
		lease, queue := a.Takes(req), queueOf("x")
		do(t, s, "ZADD", queue, int64(4e15+1), "~old")
		do(t, s, "CONFIG", "SET", "maxmemory", "1")
		peer.Extends(t, a, lease)
		other.Abandons(req)
		do(t, s, "CONFIG", "SET", "maxmemory", "0")
		require.Equal(t, int64(0), do(t, s, "EXISTS", "lockport:x"))
		refused = append(refused, "~"+req.Owner[:32])
		require.ElementsMatch(t, refused, do(t, s, "ZRANGE", queue, 0, -1))
	}
	lease := a.Takes(a.Request("y"))
	require.NoError(t, a.Detach(t.Context(), lease))
	_, forgotten, _ := a.claims.Find(lease.(*claim).Req)
	require.True(t, forgotten, "a detached claim")
	do(t, s, "CONFIG", "SET", "maxmemory", "1")
	require.NoError(t, peer.ErrOf(other.Attach(t.Context(), other.Request("y"), lease.(*claim).Req.Owner, lease.Grant().Token)))
	require.InDelta(t, 9_500, do(t, s, "PTTL", key("y")), 500)
}

// A hung node of a Cluster does not keep a client from renewing its locks on others, of whatever kind.
func TestRenewalBesideAHungNode(t *testing.T) {
	t.Parallel()
	c, _ := newCluster(t)
	n := opened(t, c.URL())
	_, hung, _ := slotOf(t, c, key("x")) // y is on another node
	leases := []driver.Lease{n.Takes(n.Request("x")), n.Takes(n.reading("y")), n.Takes(n.permit("y"))}
	require.NoError(t, hung.Freeze())
	t.Cleanup(func() { _ = hung.Thaw() })
	results := make([]driver.Renewal, len(leases))
	n.RenewBatch(peer.Within(t, 3*time.Second), leases, results)
	require.ErrorIs(t, results[0].Err, driver.ErrUnknown)
	require.NoError(t, results[1].Err)
	require.NoError(t, results[2].Err)
}

// A Cluster begins to move the slot of a reader that is abandoned: its keys go, and the waiter is called.
func TestReaderIsAbandonedWhileItsSlotIsMoved(t *testing.T) {
	t.Parallel()
	c, client := newCluster(t)
	n := nodeOn(t, client, "a", Options{})
	name := t.Name()
	req := n.reading(name)
	n.Takes(req)
	waiter := n.Request(name)
	n.Waits(waiter)
	woken := n.Notified(waiter)
	slot, source, target := slotOf(t, c, key(name))
	do(t, target, "CLUSTER", "SETSLOT", slot, "IMPORTING", do(t, source, "CLUSTER", "MYID"))
	do(t, source, "CLUSTER", "SETSLOT", slot, "MIGRATING", do(t, target, "CLUSTER", "MYID"))
	require.NoError(t, n.Abandon(t.Context(), req))
	peer.Eventually(t, woken)
	require.NotContains(t, do(t, source, "CLUSTER", "GETKEYSINSLOT", slot, 1000), key(name))
}
