package etcd

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

// A detached claim keeps its key. Its process must not reuse that key: another client attaches it, and others wait behind it.
func TestDetachedKey(t *testing.T) {
	t.Parallel()
	s := servers.NeedEtcd(t, servers.EtcdOptions{})
	etcd := newClient(t, s.Addr())
	a, b := newNode(t, s.URL()), newNode(t, s.URL())
	req, mine := a.Request("x"), b.Request("x")
	lease := a.Takes(req)
	before := keysOf(t, etcd, "x")[0]
	require.NoError(t, a.Detach(t.Context(), lease))
	require.NotEqual(t, before.Lease, keysOf(t, etcd, "x")[0].Lease)
	took, err := b.Attach(t.Context(), mine, req.Owner, lease.Grant().Token)
	require.NoError(t, err)
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
}

// An Attach whose answer was lost is granted once; an abandoned one, never.
func TestRepeatedAttach(t *testing.T) {
	t.Parallel()
	s := servers.NeedEtcd(t, servers.EtcdOptions{})
	etcd := newClient(t, s.Addr())
	var cancel atomic.Bool
	var repeat func() // resends the cancelled request
	carryOut := false // execute the request before cancelling it
	b := newNodeThrough(t, s, func(ctx context.Context, txn *pb.TxnRequest, send, resend func() error) error {
		if !cancel.CompareAndSwap(true, false) {
			return send()
		}
		repeat = func() { require.NoError(t, resend()) }
		if carryOut {
			repeat()
			return status.Error(codes.Canceled, "cancelled") // clientv3 resends it
		}
		return status.Error(codes.Internal, "broken")
	})
	a := newNode(t, s.URL())
	for _, carryOut = range []bool{true, false} {
		req, mine := a.Request("x"), b.Request("x")
		lease := a.Takes(req)
		require.NoError(t, a.Detach(t.Context(), lease))
		cancel.Store(true)
		took, err := b.Attach(t.Context(), mine, req.Owner, lease.Grant().Token)
		if carryOut {
			require.NoError(t, err)
			require.Equal(t, lease.Grant().Token, took.Grant().Token)
			b.Frees(took)
			repeat()
			require.Empty(t, keysOf(t, etcd, "x"))
			continue
		}
		require.ErrorIs(t, err, driver.ErrUnknown)
		require.NoError(t, b.Abandon(t.Context(), mine))
		repeat()
		require.Equal(t, valueOf(req.Owner), string(keysOf(t, etcd, "x")[0].Value), "it was abandoned")
	}

	// A copy of the first claim arrives after the attached lock was released.
	req := a.Request("y")
	_, txn := a.sends(req)
	_, err := a.arrives(txn)
	require.NoError(t, err)
	lease := a.Takes(req)
	require.NoError(t, a.Detach(t.Context(), lease))
	took, err := b.Attach(t.Context(), b.Request("y"), req.Owner, lease.Grant().Token)
	require.NoError(t, err)
	b.Frees(took)
	_, err = a.arrives(txn)
	require.NoError(t, err)
	require.Empty(t, keysOf(t, etcd, "y"))
}
