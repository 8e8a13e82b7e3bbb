package etcd

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
)

// sends prepares the transaction of a claim on req, as if it had been sent but not answered.
func (n *node) sends(req driver.Request) (*claim, request) {
	n.T.Helper()
	c := peer.Must(n.register(req))(n.T)
	n.assignKey(c, peer.Must(n.leaseFor(context.Background(), c.req.TTL))(n.T))
	c.late = true
	return c, n.claimTxn(c, req.Queue)
}

// arrives executes a transaction on the server.
func (n *node) arrives(r request) (succeeded bool, err error) {
	a := n.commit(context.Background(), r)
	return a.err == nil && a.txn.Succeeded, a.err
}

// A process that starts with many claims creates one lease: each is a write on a majority of the disks, and may log in first.
func TestClaimsAtOnceShareALease(t *testing.T) {
	_, etcd, n := alone(t)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() { n.Takes(n.Request(name(i))) })
	}
	all.Wait()
	require.Len(t, peer.Must(etcd.Leases(t.Context()))(t).Leases, 1)
}

func TestAbandonedClaimIsRefusedWhenItArrives(t *testing.T) {
	_, etcd, n := alone(t)
	for _, req := range n.inEachMode("x") {
		// The lease lives: other locks are on it.
		other := n.Takes(n.Request("other"))
		c, txn := n.sends(req)
		require.Same(t, other.(*claim).lease, c.lease)
		require.NoError(t, n.Abandon(t.Context(), req))
		require.ErrorIs(t, n.win(c, place{}), driver.ErrUnavailable, "its answer comes late")
		require.False(t, peer.Must(n.arrives(txn))(t), "%+v was abandoned", req)
		under := peer.Must(n.register(n.Request("x")))(t)
		_, err := n.acquire(t.Context(), under, true, func(ctx context.Context, txn request) (*clientv3.TxnResponse, error) {
			n.Abandons(under.req)
			return n.write(ctx, txn)
		})
		require.ErrorIs(t, err, errAbandoned, "its request was under way")
		unsent := peer.Must(n.register(n.Request("x")))(t)
		n.Abandons(unsent.req)
		require.ErrorIs(t, peer.ErrOf(n.acquire(t.Context(), unsent, true, n.write)), errAbandoned)
		require.Empty(t, keysOf(t, etcd, "x"))
		again := peer.Must(n.register(req))(t)
		n.assignKey(again, c.lease)
		require.NotEqual(t, c.key, again.key, "the abandoned claim may still arrive")
		peer.Fails(t, n, req, driver.ErrRefused) // the same owner again

		// The lease takes no more claims, so the lease and the tombstone end with its last lock.
		fresh := n.Takes(n.Request("y"))
		require.NotSame(t, c.lease, fresh.(*claim).lease)
		n.Frees(fresh)
		n.Frees(other)

		// The lease has ended.
		req.Owner = n.Request("x").Owner
		c, txn = n.sends(req)
		require.NoError(t, peer.ErrOf(etcd.Revoke(t.Context(), c.lease.id)))
		require.NoError(t, n.Abandon(t.Context(), req))
		require.ErrorIs(t, peer.ErrOf(n.arrives(txn)), rpctypes.ErrLeaseNotFound)
		require.Empty(t, keysOf(t, etcd, "x"))
	}
}

// Somebody deletes the key of a lock. Its release says so, whether the holder was told before or not. It keeps out a late copy of the claim, and
// deletes the key that such a copy has made.
func TestLostClaimThatArrivesAgain(t *testing.T) {
	_, etcd, n := alone(t)
	for i := range 8 {
		requeue, copied, told := i&1 > 0, i&2 > 0, i&4 > 0
		req, next := n.Request("x"), n.Request("x")
		c, txn := n.sends(req)
		arrives := func() { require.NoError(t, peer.ErrOf(n.arrives(txn))) }
		arrives()
		lease := n.Takes(req)
		c.timer.Stop() // of its watch
		require.NoError(t, peer.ErrOf(etcd.Delete(t.Context(), c.key)))
		if copied {
			arrives()
		}
		if told {
			require.NoError(t, n.confirm([]*claim{c}))
			require.ErrorIs(t, c.ended, errKeyGone)
		}
		var released, err error
		if requeue {
			_, released, err = n.Requeue(t.Context(), lease, next)
			require.NoError(t, err)
			n.Abandons(next)
		} else {
			released = n.Releases(lease)
		}
		require.ErrorIs(t, released, driver.ErrLost, "requeue %v, copied %v, told %v", requeue, copied, told)
		arrives()
		require.Empty(t, keysOf(t, etcd, "x"))
	}
}

// The lease of the released lock has ended. That says nothing about the lease of the new claim, which other locks share.
func TestRequeueAfterTheLeaseHasEnded(t *testing.T) {
	_, etcd, n := alone(t)
	old := n.Takes(n.Request("x")).(*claim)
	n.mu.Lock()
	old.late = true // its release leaves a tombstone on its lease
	old.unwatch()   // it does not know
	n.retire(old.lease)
	n.mu.Unlock()
	other := n.Takes(n.Request("y")).(*claim)
	require.NoError(t, peer.ErrOf(etcd.Revoke(t.Context(), old.lease.id)))
	_, _, err := n.Requeue(t.Context(), old, n.Request("x"))
	require.ErrorIs(t, err, driver.ErrUnavailable)
	require.False(t, other.lease.gone)
	require.ErrorIs(t, n.Releases(old), driver.ErrLost)
	n.Frees(other)
	require.NoError(t, peer.ErrOf(etcd.Revoke(t.Context(), other.lease.id)))
	n.Frees(n.Takes(n.Request("z"))) // on another lease
}

// A keep-alive said that a lease does not exist, before its member had applied the grant. The waiter's key must not stay in the queue.
func TestWaiterWhoseLeaseExistsAfterAll(t *testing.T) {
	_, etcd, n := alone(t)
	holder := n.Takes(n.Request("x"))
	req := n.Request("x")
	n.Waits(req)
	n.mu.Lock()
	l := n.claims[req.Owner].lease
	l.gone = true
	n.retire(l)
	n.mu.Unlock()
	n.Frees(holder)
	require.ErrorIs(t, peer.ErrOf(n.Backend.Wait(t.Context(), req)), driver.ErrUnknown)
	n.Abandons(req)
	require.Empty(t, keysOf(t, etcd, "x"))
}

// A rejected request does not fail the others of its batch.
func TestBatchOfWhichOneIsRejected(t *testing.T) {
	t.Parallel()
	for what, o := range map[string]servers.EtcdOptions{"lease": {}, "limit": {Flags: []string{"--max-txn-ops=16"}}} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, servers.NeedEtcd(t, o).URL())
			var all []request
			for i := range 20 {
				c, r := n.sends(n.Request(name(i)))
				if what == "lease" && i == 7 {
					r.then[0] = clientv3.OpPut(c.key, "", clientv3.WithLease(1))
				}
				all = append(all, r)
			}
			for i, a := range n.send(t.Context(), all) {
				if what == "lease" && i == 7 {
					require.ErrorIs(t, a.err, driver.ErrUnavailable)
					continue
				}
				require.NoError(t, a.err)
				require.True(t, a.txn.Succeeded)
			}
		})
	}
}

// A detached claim keeps its key. Its process must not reuse that key: another client attaches it, and others wait behind it.
func TestDetachedKey(t *testing.T) {
	s, etcd, a := alone(t)
	b := newNode(t, s.URL())
	req, mine := a.Request("x"), b.Request("x")
	lease := a.Takes(req)
	before := keysOf(t, etcd, "x")[0]
	require.NoError(t, a.Detach(t.Context(), lease))
	require.NotEqual(t, before.Lease, keysOf(t, etcd, "x")[0].Lease)
	require.Equal(t, []any{0, errReleased}, []any{len(a.claims), lease.(*claim).ended}, "nothing is left here, nor will a watch begin")
	took := peer.Must(b.Attach(t.Context(), mine, req.Owner, lease.Grant().Token))(t)
	require.ErrorIs(t, a.Releases(lease), driver.ErrLost, "it is not a's any more")
	attached := keysOf(t, etcd, "x")[0]
	require.Equal(t, []any{string(before.Key), before.CreateRevision, valueOf(mine.Owner)}, []any{string(attached.Key), attached.CreateRevision, string(attached.Value)})
	var key Key
	require.True(t, took.(driver.LeaseAs).As(&key))
	require.Equal(t, Key{Key: string(attached.Key), CreateRevision: attached.CreateRevision, Lease: attached.Lease}, key)

	next := a.Request("x")
	a.Waits(next)
	queued(t, etcd, "x", 2) // with a key of its own
	b.Frees(took)
	lease = a.Takes(next)
	require.NoError(t, a.Detach(t.Context(), lease))
	a.Frees(lease) // nobody attached it
	require.Empty(t, keysOf(t, etcd, "x"))

	var during func()
	c := newNodeThrough(t, s, func(_ context.Context, _ *pb.TxnRequest, send, _ func() error) error {
		if during != nil {
			during()
		}
		return send()
	})
	req = c.Request("x")
	lease = c.Takes(req)
	during = func() { _ = lease.(*claim).close() } // a release begins, and its request is lost
	require.NoError(t, c.Detach(t.Context(), lease))
	during = nil
	took = peer.Must(b.Attach(t.Context(), b.Request("x"), req.Owner, lease.Grant().Token))(t)
	require.ErrorIs(t, c.Releases(lease), driver.ErrLost)
	b.Frees(took)
}

// An Attach whose answer was lost is granted once; an abandoned one, never.
func TestRepeatedAttach(t *testing.T) {
	s, etcd, a := alone(t)
	var fail atomic.Bool
	var repeat func() // resends the request that failed
	carryOut := false // execute the request before it fails
	b := newNodeThrough(t, s, func(ctx context.Context, txn *pb.TxnRequest, send, resend func() error) error {
		if !fail.CompareAndSwap(true, false) {
			return send()
		}
		repeat = func() { require.NoError(t, resend()) }
		if carryOut {
			repeat()
		}
		return status.Error(codes.Internal, "broken")
	})
	for _, carryOut = range []bool{true, false} {
		req, mine := a.Request("x"), b.Request("x")
		lease := a.Takes(req)
		require.NoError(t, a.Detach(t.Context(), lease))
		fail.Store(true)
		attach := func() (driver.Lease, error) { return b.Attach(t.Context(), mine, req.Owner, lease.Grant().Token) }
		require.ErrorIs(t, peer.ErrOf(attach()), driver.ErrUnknown)
		if carryOut {
			took := peer.Must(attach())(t)
			require.Equal(t, lease.Grant().Token, took.Grant().Token)
			b.mu.Lock()
			took.(*claim).late = false // its key is known
			b.mu.Unlock()
			peer.Must(attach())(t)
			require.EqualValues(t, keysOf(t, etcd, "x")[0].Lease, took.(*claim).lease.id, "the lease that is renewed is the key's")
			b.Frees(took)
			repeat()
			require.Empty(t, keysOf(t, etcd, "x"))
			continue
		}
		require.NoError(t, b.Abandon(t.Context(), mine))
		repeat()
		require.Equal(t, valueOf(req.Owner), string(keysOf(t, etcd, "x")[0].Value), "it was abandoned")
	}

	// Requests whose batch may have been executed are not sent again.
	fail.Store(true)
	for _, a := range b.send(t.Context(), []request{{name: "x"}, {name: "y"}}) {
		require.ErrorIs(t, a.err, driver.ErrUnknown)
	}
	// A copy of the first claim arrives after the attached lock was released.
	req := a.Request("y")
	_, txn := a.sends(req)
	require.NoError(t, peer.ErrOf(a.arrives(txn)))
	lease := a.Takes(req)
	require.NoError(t, a.Detach(t.Context(), lease))
	b.Frees(peer.Must(b.Attach(t.Context(), b.Request("y"), req.Owner, lease.Grant().Token))(t))
	require.NoError(t, peer.ErrOf(a.arrives(txn)))
	require.Empty(t, keysOf(t, etcd, "y"))
}

// A reader that is refused because of a waiting writer is told who holds the lock.
func TestRefusedReaderIsToldTheHolder(t *testing.T) {
	_, _, n := alone(t)
	first, writer := peer.Reading(n.Request("x")), n.Request("x")
	lease := n.Takes(first)
	n.Waits(writer)
	require.Equal(t, first.Owner, n.Waits(peer.Once(peer.Reading(n.Request("x")))).Holder.Owner)
	n.Frees(lease)
	n.Frees(n.Takes(writer))
	require.Empty(t, n.claims)
}
