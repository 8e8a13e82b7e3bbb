package etcd

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

// sends prepares the transaction of a claim on req, as if it had been sent but not answered.
func (n *node) sends(req driver.Request) (*claim, request) {
	n.T.Helper()
	c, err := n.register(req)
	require.NoError(n.T, err)
	l, err := n.leaseFor(context.Background(), c.req.TTL)
	require.NoError(n.T, err)
	n.assignKey(c, l)
	c.late = true
	return c, n.claimTxn(c, req.Queue)
}

// arrives executes a transaction on the server.
func (n *node) arrives(r request) (succeeded bool, err error) {
	a := n.commit(context.Background(), r)
	return a.err == nil && a.txn.Succeeded, a.err
}

func TestAbandonedClaimIsRefusedWhenItArrives(t *testing.T) {
	t.Parallel()
	s := servers.NeedEtcd(t, servers.EtcdOptions{})
	etcd := newClient(t, s.Addr())
	n := newNode(t, s.URL())
	for _, as := range inMode {
		for _, queue := range []bool{false, true} {
			// The lease lives: other locks are on it.
			other := n.Takes(n.Request("other"))
			req := as(n.Request("x"))
			req.Queue = queue
			c, txn := n.sends(req)
			require.Same(t, other.(*claim).lease, c.lease)
			require.NoError(t, n.Abandon(t.Context(), req))
			entered, err := n.arrives(txn)
			require.NoError(t, err)
			require.False(t, entered)
			require.Empty(t, keysOf(t, etcd, "x"))
			again, err := n.register(req)
			require.NoError(t, err)
			n.assignKey(again, c.lease)
			require.NotEqual(t, c.key, again.key, "the abandoned claim may still arrive")
			_, err = n.Try(req)
			require.ErrorIs(t, err, driver.ErrRefused, "the same owner again")

			// The lease takes no more claims, so the lease and the tombstone end with its last lock.
			fresh := n.Takes(n.Request("y"))
			require.NotSame(t, c.lease, fresh.(*claim).lease)
			n.Frees(fresh)
			n.Frees(other)

			// The lease has ended.
			req = as(n.Request("x"))
			req.Queue = queue
			c, txn = n.sends(req)
			_, err = etcd.Revoke(t.Context(), c.lease.id)
			require.NoError(t, err)
			require.NoError(t, n.Abandon(t.Context(), req))
			_, err = n.arrives(txn)
			require.ErrorIs(t, err, rpctypes.ErrLeaseNotFound)
			require.Empty(t, keysOf(t, etcd, "x"))
		}
	}
}

// Somebody deletes the key of a lock. Its release says so, whether the holder was told before or not. It keeps out a late copy of the claim, and
// deletes the key that such a copy has made.
func TestLostClaimThatArrivesAgain(t *testing.T) {
	t.Parallel()
	s := servers.NeedEtcd(t, servers.EtcdOptions{})
	etcd, n := newClient(t, s.Addr()), newNode(t, s.URL())
	for i := range 8 {
		requeue, copied, told := i&1 > 0, i&2 > 0, i&4 > 0
		req, next := n.Request("x"), n.Request("x")
		c, txn := n.sends(req)
		arrives := func() {
			_, err := n.arrives(txn)
			require.NoError(t, err)
		}
		arrives()
		lease := n.Takes(req)
		n.mu.Lock()
		c.unwatch()
		n.mu.Unlock()
		_, err := etcd.Delete(t.Context(), c.key)
		require.NoError(t, err)
		if told {
			c.lose()
		}
		if copied {
			arrives()
		}
		var released error
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
	t.Parallel()
	s := servers.NeedEtcd(t, servers.EtcdOptions{})
	n := newNode(t, s.URL())
	old := n.Takes(n.Request("x")).(*claim)
	n.mu.Lock()
	old.late = true // its release leaves a tombstone on its lease
	old.unwatch()   // it does not know
	n.retire(old.lease)
	n.mu.Unlock()
	other := n.Takes(n.Request("y")).(*claim)
	etcd := newClient(t, s.Addr())
	_, err := etcd.Revoke(t.Context(), old.lease.id)
	require.NoError(t, err)
	_, _, err = n.Requeue(t.Context(), old, n.Request("x"))
	require.ErrorIs(t, err, driver.ErrUnavailable)
	require.False(t, other.lease.gone)
	require.ErrorIs(t, n.Releases(old), driver.ErrLost)
	n.Frees(other)
	_, err = etcd.Revoke(t.Context(), other.lease.id)
	require.NoError(t, err)
	n.Frees(n.Takes(n.Request("z"))) // on another lease
}

// A keep-alive said that a lease does not exist, before its member had applied the grant. The waiter's key must not stay in the queue.
func TestWaiterWhoseLeaseExistsAfterAll(t *testing.T) {
	t.Parallel()
	s := servers.NeedEtcd(t, servers.EtcdOptions{})
	n := newNode(t, s.URL())
	holder := holds(t, newLocker(t, s.URL(), 15*time.Second), "x")
	req := n.Request("x")
	req.Queue = true
	_, err := n.Try(req)
	require.ErrorIs(t, err, driver.ErrHeld)
	n.mu.Lock()
	l := n.claims[req.Owner].lease
	l.gone = true
	n.retire(l)
	n.mu.Unlock()
	require.NoError(t, holder.Release(t.Context()))
	_, err = n.Backend.Wait(t.Context(), req)
	require.ErrorIs(t, err, driver.ErrUnknown)
	require.NoError(t, n.Backend.Abandon(t.Context(), req))
	require.Empty(t, keysOf(t, newClient(t, s.Addr()), "x"))
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
