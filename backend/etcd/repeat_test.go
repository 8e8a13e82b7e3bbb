package etcd

import (
	"context"
	"errors"
	"path"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
)

// clientv3 repeats a canceled request that etcd may have executed, or may still execute. Neither changes the outcome.
func TestRepeatedRequests(t *testing.T) {
	s, etcd, own := alone(t)
	var cancel, slow atomic.Bool
	var repeat func() // resends the canceled request
	sent := 0
	cancels := func(_ context.Context, _ *pb.TxnRequest, send, resend func() error) error {
		if !cancel.Load() {
			return send()
		}
		if sent++; sent > 1 {
			return send()
		}
		repeat = func() { require.NoError(t, resend()) }
		if slow.Load() {
			<-time.After(repeatedAfter)
		} else {
			repeat()
		}
		return status.Error(codes.Canceled, "canceled")
	}
	n := newNodeThrough(t, s, cancels)
	repeats := func(do func()) {
		sent = 0
		cancel.Store(true)
		do()
		cancel.Store(false)
		require.Greater(t, sent, 1)
	}

	// etcd executed the first copy.
	var lease driver.Lease
	for _, req := range n.inEachMode("x") {
		repeats(func() { lease = n.Takes(req) })
		kvs := keysOf(t, etcd, "x")
		require.Len(t, kvs, 1, "%+v", req)
		require.EqualValues(t, kvs[0].CreateRevision, lease.Grant().Token, "%+v", req)
		n.Frees(lease)
	}
	repeats(func() { lease = n.Takes(n.Request("x")) })
	repeats(func() {
		require.ErrorIs(t, n.Releases(lease), driver.ErrLost, "what etcd says: the core knows better, before the deadline")
	})
	next := n.Takes(n.Request("x"))
	repeat()
	require.Len(t, keysOf(t, etcd, "x"), 1, "a release that is late")
	n.Frees(next)

	// The client that a URL makes does not repeat a release. Lockport does, and knows better.
	own.config.DialOptions = append(own.config.DialOptions, through(cancels))
	c := peer.Client(t, own.Backend)
	l := peer.Holds(t, c, "own")
	repeats(func() { require.NoError(t, l.Release(t.Context())) })

	// A copy that arrives after the release has the key of the next claim, which deletes it. Its lease may live as long as the process.
	c = peer.Client(t, n.Backend, lockport.TTL(time.Minute))
	repeats(func() { require.NoError(t, peer.Holds(t, c, "stray").Release(t.Context())) })
	repeat()
	require.Len(t, keysOf(t, etcd, "stray"), 1)
	require.NoError(t, peer.Holds(t, c, "stray").Release(t.Context()))

	// The first copy arrives after the lock was released or abandoned.
	slow.Store(true)
	for _, req := range n.inEachMode("x") {
		repeats(func() { lease = n.Takes(req) })
		n.Frees(lease)
		repeat()
		require.Empty(t, keysOf(t, etcd, "x"), "%+v", req)

		held := n.Takes(peer.Permit(n.Request("x"), req.Permits))
		req.Owner = n.Request("x").Owner
		repeats(func() {
			_, err := n.Try(req)
			switch {
			case req.Permits > 0 && !req.Queue:
				require.ErrorIs(t, err, driver.ErrHeld, "it has left the queue")
			case !req.Queue:
				require.ErrorIs(t, err, driver.ErrUnknown, "it may arrive later, and be granted")
			}
		})
		require.NoError(t, n.Abandon(t.Context(), req))
		n.Frees(held)
		repeat()
		require.Empty(t, keysOf(t, etcd, "x"))
	}
}

// clientv3 repeats a keep-alive that a proxy answers with UNAVAILABLE, without a pause. Our own client does not, a caller's for a quarter of the TTL.
func TestRepeatedKeepAlives(t *testing.T) {
	s, _, own := alone(t)
	var down atomic.Bool
	var sent [2]atomic.Int64
	proxy := func(sent *atomic.Int64) grpc.DialOption {
		return grpc.WithChainStreamInterceptor(
			func(ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, method string, next grpc.Streamer, o ...grpc.CallOption) (grpc.ClientStream, error) {
				switch {
				case !down.Load() || path.Base(method) != "LeaseKeepAlive":
					return next(ctx, d, cc, method, o...)
				case sent.Add(1)%2 == 0:
					return nil, errUnhealthy
				}
				s, err := next(ctx, d, cc, "/unknown", o...)
				return unhealthy{s}, err
			})
	}
	const ttl = 2 * time.Second
	own.config.DialOptions = append(own.config.DialOptions, proxy(&sent[0]))
	var held []*lockport.Lock
	for _, n := range []*node{own, newNodeOn(t, newClient(t, s.Addr(), proxy(&sent[1])))} {
		held = append(held, peer.Holds(t, peer.Client(t, n.Backend, lockport.TTL(ttl)), n.Request("x").Owner))
	}
	down.Store(true)
	for _, l := range held {
		peer.Eventually(t, l.Lost())
	}
	require.Greater(t, sent[0].Load(), int64(1), "it tries again")
	require.Less(t, sent[0].Load(), int64(12))
	<-time.After(ttl / 3)
	before := sent[1].Load()
	<-time.After(ttl / 20)
	require.Equal(t, before, sent[1].Load(), "it has ended")
}

var errUnhealthy = status.Error(codes.Unavailable, "no healthy upstream")

type unhealthy struct{ grpc.ClientStream }

func (unhealthy) SendMsg(any) error { return nil } // else it may see the stream's end, after which clientv3 does not repeat

func (unhealthy) RecvMsg(any) error {
	<-time.After(time.Millisecond)
	return errUnhealthy
}

// A claim finds its key, which an earlier copy made, but is refused its place. If it need not wait, it has an effect, so the client must undo it.
func TestRepeatedRequestThatIsRefused(t *testing.T) {
	s, etcd, _ := alone(t)
	n := newNodeThrough(t, s, func(_ context.Context, txn *pb.TxnRequest, send, _ func() error) error {
		if txn.Success[0].GetRequestRange() != nil {
			return rpctypes.ErrGRPCPermissionDenied
		}
		return send()
	})
	for _, req := range []driver.Request{n.Request("x"), peer.Once(n.Request("x"))} {
		_, txn := n.sends(req)
		require.NoError(t, peer.ErrOf(n.arrives(txn)))
		class := map[bool]error{true: driver.ErrRefused, false: driver.ErrUnknown}[req.Queue]
		require.Equal(t, req.Queue, errors.Is(peer.Fails(t, n, req, class), driver.ErrRefused))
		n.Abandons(req)
		require.Empty(t, keysOf(t, etcd, "x"))
	}
}

// etcd executes the transaction that fills it, but answers that it did not. It rejects later ones, even those that only delete.
func TestOutOfSpaceAfterAll(t *testing.T) {
	s, etcd, _ := alone(t)
	var full, rejects atomic.Bool
	n := newNodeThrough(t, s, func(ctx context.Context, txn *pb.TxnRequest, send, resend func() error) error {
		if rejects.Load() {
			return rpctypes.ErrGRPCNoSpace
		}
		err := send()
		if err == nil && full.Load() {
			return rpctypes.ErrGRPCNoSpace
		}
		return err
	})
	detached := n.Takes(n.Request("detached"))
	require.NoError(t, n.Detach(t.Context(), detached))
	lease, other := n.Takes(n.Request("x")), n.Takes(n.Request("z"))
	lost := []*claim{n.Takes(n.Request("told")).(*claim), n.Takes(n.Request("finds")).(*claim)}
	for _, c := range lost {
		require.NoError(t, peer.ErrOf(etcd.Delete(t.Context(), c.key)))
	}
	require.NoError(t, n.confirm(lost[:1]))
	require.ErrorIs(t, n.Detach(t.Context(), lost[1]), driver.ErrLost)
	rejects.Store(true)
	for _, c := range lost {
		require.ErrorIs(t, n.Releases(c), driver.ErrLost, "that is known, so no server is needed")
	}
	require.ErrorIs(t, n.Releases(detached), driver.ErrUnknown)
	require.Len(t, keysOf(t, etcd, "detached"), 1, "the key may be another client's by now")
	n.Frees(other)
	require.Empty(t, keysOf(t, etcd, "z"))
	rejects.Store(false)
	full.Store(true)
	req := n.Request("y")
	peer.Fails(t, n, req, driver.ErrUnknown)
	require.NotSame(t, other.(*claim).lease, n.claims[req.Owner].lease, "the deletion may arrive again")
	_, released, err := n.Requeue(t.Context(), lease, n.Request("x"))
	require.ErrorIs(t, released, driver.ErrUnknown)
	require.ErrorIs(t, err, driver.ErrUnknown)
	require.ErrorIs(t, n.Releases(lease), driver.ErrUnknown)
	full.Store(false)
	require.ErrorIs(t, n.Releases(lease), driver.ErrLost, "now it is certain")
	require.NoError(t, n.Abandon(t.Context(), req))
	require.Empty(t, keysOf(t, etcd, "y"))
}

// gRPC pauses up to two minutes between connection attempts. A claim cuts the pause short, and never waits in a queue for a connection.
func TestPauseBetweenConnectionsIsCutShort(t *testing.T) {
	s, _, _ := alone(t)
	proxy := peer.Proxy(t, s.Addr())
	pause := backoff.Config{BaseDelay: time.Minute, Multiplier: 1, MaxDelay: time.Minute}
	n := newNodeOn(t, newClient(t, proxy.Addr(), grpc.WithConnectParams(grpc.ConnectParams{Backoff: pause, MinConnectTimeout: time.Second})))
	n.Frees(n.Takes(n.Request("x")))
	proxy.Cut()
	peer.Until(t, func() bool {
		start := time.Now()
		_, err := n.Try(n.Request("x"))
		require.Error(t, err)
		require.Less(t, time.Since(start), soon/2)
		return errors.Is(err, driver.ErrUnavailable)
	})
	proxy.Restore()
	n.Frees(n.TakesSoon(n.Request("y")))
}

// A waiter whose query of its place is unanswered, the first one or a later one, asks again, and keeps its lease alive meanwhile.
func TestLookThatIsNotAnswered(t *testing.T) {
	s, etcd, _ := alone(t)
	var silent, looked atomic.Bool
	n := newNodeThrough(t, s, func(ctx context.Context, txn *pb.TxnRequest, send, resend func() error) error {
		look := txn.Success[0].GetRequestRange() != nil
		if look && silent.Swap(false) {
			<-ctx.Done()
			return ctx.Err()
		}
		err := send()
		if look {
			looked.Store(true)
		}
		return err
	})
	held := peer.Holds(t, newLocker(t, s.URL(), 2*time.Second), "x")
	silent.Store(true)
	next := peer.Acquiring(t, peer.Client(t, n.Backend, lockport.TTL(2*time.Second)), "x")
	place := queued(t, etcd, "x", 2)[1]
	peer.Until(t, looked.Load)
	<-time.After(100 * time.Millisecond) // until it watches the holder's key
	silent.Store(true)
	require.NoError(t, held.Release(t.Context()))
	token, _ := peer.Eventually(t, next).Token()
	require.False(t, silent.Load())
	require.EqualValues(t, place.CreateRevision, token/driver.TokensPerGrant, "it has queued again")
}
