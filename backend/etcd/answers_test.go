package etcd

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

// newNodeThrough is newNode with something between it and etcd.
func newNodeThrough(t *testing.T, endpoint string, between grpc.UnaryClientInterceptor) *node {
	config := newConfig([]string{endpoint})
	config.DialOptions = append(config.DialOptions, grpc.WithChainUnaryInterceptor(between))
	c, err := clientv3.New(*config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	b, err := NewBackend(c, Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.Close() })
	return &node{Backend: b, t: t, name: "through"}
}

// The transaction that fills etcd is carried out, and answered as if it had not been.
func TestOutOfSpaceAfterAll(t *testing.T) {
	t.Parallel()
	s := servers.NeedEtcd(t, servers.EtcdOptions{})
	etcd := newClient(t, s.URL())
	var full atomic.Bool
	n := newNodeThrough(t, s.Addr(), func(ctx context.Context, method string, q, r any, cc *grpc.ClientConn, next grpc.UnaryInvoker, o ...grpc.CallOption) error {
		err := next(ctx, method, q, r, cc, o...)
		if txn, ok := q.(*pb.TxnRequest); err == nil && ok && txn.Success[0].GetRequestRange() == nil && full.Swap(false) {
			return rpctypes.ErrGRPCNoSpace
		}
		return err
	})
	full.Store(true)
	lease := n.takes(n.request("x"))
	kvs := keysOf(t, etcd, "x")
	require.Len(t, kvs, 1)
	require.EqualValues(t, kvs[0].CreateRevision, lease.Grant().Token)

	full.Store(true)
	next, released, err := n.Requeue(t.Context(), lease, n.request("x"))
	require.NoError(t, err)
	require.ErrorIs(t, released, driver.ErrUnknown)
	frees(t, lease)
	require.Len(t, keysOf(t, etcd, "x"), 1)

	// Several together: a claim, and a release.
	_, txn := n.sends(n.request("y"))
	c := next.(*claim)
	_, _ = c.ending()
	all := []*passenger{
		{request: request{txn: txn}, ctx: t.Context(), done: make(chan struct{})},
		{request: c.release(), ctx: t.Context(), done: make(chan struct{})},
	}
	full.Store(true)
	n.flights.fly(t.Context(), all)
	require.NoError(t, all[0].answer.err)
	require.NoError(t, c.released(all[1].answer), "it was there until it was released")
	require.Empty(t, keysOf(t, etcd, "x"))
	require.Len(t, keysOf(t, etcd, "y"), 1)
}

// canceller is an etcd, or what is before it, that cancels requests.
type canceller struct {
	pb.UnimplementedKVServer
	pb.UnimplementedLeaseServer
	asked atomic.Int32
}

func (s *canceller) LeaseGrant(_ context.Context, r *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	return &pb.LeaseGrantResponse{ID: 1, TTL: r.TTL}, nil
}

func (s *canceller) Txn(context.Context, *pb.TxnRequest) (*pb.TxnResponse, error) {
	s.asked.Add(1)
	return nil, status.Error(codes.Canceled, "cancelled")
}

func (s *canceller) DeleteRange(context.Context, *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	s.asked.Add(1)
	return nil, status.Error(codes.DeadlineExceeded, "too late")
}

// What may have been carried out is not sent again behind our back: keys are used again as soon as all requests about them are answered.
func TestCancelledRequestIsSentOnce(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s, server := new(canceller), grpc.NewServer()
	pb.RegisterKVServer(server, s)
	pb.RegisterLeaseServer(server, s)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	n := newNode(t, "etcd://"+l.Addr().String(), "a")
	_, err = n.try(n.request("x"))
	require.ErrorIs(t, err, driver.ErrUnknown)
	require.EqualValues(t, 1, s.asked.Load())
	a := n.flights.run(t.Context(), "x", request{delete: &pb.DeleteRangeRequest{Key: []byte("x")}})
	require.ErrorIs(t, a.err, driver.ErrUnknown)
	require.EqualValues(t, 2, s.asked.Load())
}

// A waiter whose look is not answered looks again, and keeps its lease alive meanwhile.
func TestLookThatIsNotAnswered(t *testing.T) {
	t.Parallel()
	s := servers.NeedEtcd(t, servers.EtcdOptions{})
	var silent atomic.Bool
	n := newNodeThrough(t, s.Addr(), func(ctx context.Context, method string, q, r any, cc *grpc.ClientConn, next grpc.UnaryInvoker, o ...grpc.CallOption) error {
		if txn, ok := q.(*pb.TxnRequest); ok && txn.Success[0].GetRequestRange() != nil && silent.Swap(false) {
			<-ctx.Done()
			return ctx.Err()
		}
		return next(ctx, method, q, r, cc, o...)
	})
	holder := newNode(t, s.URL(), "holder")
	held := holder.takes(holder.request("x"))
	req := n.request("x")
	_, err := n.try(req)
	require.ErrorIs(t, err, driver.ErrHeld)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	granted := make(chan error, 1)
	go func() {
		_, err := n.Wait(ctx, req)
		granted <- err
	}()
	<-time.After(100 * time.Millisecond) // it watches the holder's key
	silent.Store(true)
	frees(t, held)
	freed := time.Now()
	require.NoError(t, <-granted)
	require.False(t, silent.Load())
	require.Less(t, time.Since(freed), req.TTL)
}

// A watch stream that is well is left alone, also while nothing changes at etcd.
func TestStreamOfAnIdleStoreIsKept(t *testing.T) {
	t.Parallel()
	for what, o := range map[string]servers.EtcdOptions{"installed": {}, "current": {Current: true}} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, servers.NeedEtcd(t, o).URL(), "a")
			req := n.request("x")
			req.TTL, req.Lost = 10*time.Second, func(error) {}
			lease := n.takes(req).(*claim)
			eventually(t, func() bool { return n.watches.sees(lease.watch) }, "the watch")
			first := n.watches.stream
			for range 3 {
				_, err := lease.Renew(t.Context())
				require.NoError(t, err)
				eventually(t, func() bool {
					n.watches.mu.Lock()
					defer n.watches.mu.Unlock()
					return n.watches.pinged.IsZero() && n.watches.stream == first && len(n.watches.byID) <= 2
				}, "a sign of life")
				<-time.After(5 * overdue)
			}
			frees(t, lease)
		})
	}
}

// etcd sends a watch that begins in the past what has happened in parts, each with the revision of the store.
func TestWatchGoesOnAfterTheLastEvent(t *testing.T) {
	t.Parallel()
	told := 0
	w := &watch{events: witnessed(func(*mvccpb.Event) { told++ }), from: 1}
	ws := &watches{byID: map[int64]*watch{7: w}}
	ws.heard(nil, &pb.WatchResponse{WatchId: 7, Header: &pb.ResponseHeader{Revision: 5000}, Events: []*mvccpb.Event{
		{Kv: &mvccpb.KeyValue{ModRevision: 999}}, {Kv: &mvccpb.KeyValue{ModRevision: 1000}},
	}})
	require.Equal(t, 2, told)
	require.EqualValues(t, 1001, w.from)
}
