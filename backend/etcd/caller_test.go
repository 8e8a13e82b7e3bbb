package etcd

import (
	"context"
	"path"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/namespace"
	"google.golang.org/grpc"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
)

// A client wrapped with package namespace keeps its locks and watches in that namespace, and excludes nobody outside.
func TestNamespaces(t *testing.T) {
	s, etcd, _ := alone(t)
	wrapped := func(prefix string) *lockport.Client {
		c := newClient(t, s.Addr())
		c.KV, c.Lease, c.Watcher = namespace.NewKV(c.KV, prefix), namespace.NewLease(c.Lease, prefix), namespace.NewWatcher(c.Watcher, prefix)
		return peer.Client(t, newNodeOn(t, c).Backend, lockport.TTL(time.Minute)) // no renewal checks the key
	}
	a, again, b := wrapped("team-a/"), wrapped("team-a/"), wrapped("team-b/")
	l := peer.Holds(t, a, "x")
	peer.Holds(t, b, "x")
	next := peer.Acquiring(t, again, "x")
	<-time.After(4 * watchDelay) // until the holder's watch has begun
	r := peer.Must(etcd.Get(t.Context(), "", clientv3.WithPrefix()))(t)
	require.Len(t, r.Kvs, 3)
	for _, kv := range r.Kvs {
		require.Regexp(t, "^team-[ab]/lockport/x/", string(kv.Key))
	}
	require.NoError(t, again.Break(t.Context(), "x", l.Owner()))
	peer.Eventually(t, l.Lost())
	peer.Eventually(t, next)
}

// An interceptor of the caller's connection sees every request for a lock, and no other is sent. Closing the backend leaves the
// connection open.
func TestInterceptorSeesEveryRequest(t *testing.T) {
	t.Parallel()
	s := servers.NeedEtcd(t, servers.EtcdOptions{})
	seen, late := make(chan string, 100), 200*time.Millisecond
	note := func(method string) { seen <- path.Base(method) }
	since := func() (all []string) {
		for len(seen) > 0 {
			all = append(all, <-seen)
		}
		slices.Sort(all)
		return all
	}
	client := newClient(t, s.Addr(),
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, q, r any, cc *grpc.ClientConn, next grpc.UnaryInvoker, o ...grpc.CallOption) error {
			note(method)
			defer time.Sleep(late) // the answer comes late
			return next(ctx, method, q, r, cc, o...)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, method string, next grpc.Streamer, o ...grpc.CallOption) (grpc.ClientStream, error) {
			note(method)
			return next(ctx, d, cc, method, o...)
		}))
	n := newNodeOn(t, client)
	before := peer.Must(requestsOf(t.Context(), s))(t)
	req := n.Request("x")
	req.TTL, req.Contended = time.Minute, func() { note("Contended") }
	lease := n.Takes(req)
	timer := lease.(*claim).timer // of its watch
	timer.Stop()
	require.LessOrEqual(t, time.Until(lease.Grant().Until), req.TTL-2*late, "the validity counts from before the first request")
	require.Equal(t, []string{"LeaseGrant", "Txn"}, since())
	require.EqualValues(t, before+2, peer.Must(requestsOf(t.Context(), s))(t))
	timer.Reset(watchDelay)
	peer.Extends(t, n, lease)
	peer.Until(t, func() bool { return len(seen) >= 3 })
	<-time.After(8 * watchDelay)
	require.Equal(t, []string{"LeaseKeepAlive", "Txn", "Watch"}, since())
	n.Frees(lease)
	require.Equal(t, []string{"Txn"}, since())
	other := newNode(t, s.URL())
	lease = other.Takes(n.Request("x")) // the watch has ended
	n.Abandons(n.Request("y"))
	require.Equal(t, []string{"Range"}, since())
	for waiters := range 2 {
		req.Owner = n.Request("x").Owner
		go func(req driver.Request) { _, _ = n.Wait(t.Context(), req) }(req)
		peer.Until(t, func() bool { return peer.Shows(t, other, "x").Waiters > waiters })
	}
	<-time.After(late + 20*watchDelay) // until both watch, even if this process stalls
	since()
	other.Frees(lease)
	peer.Until(t, func() bool { return len(seen) > 0 })
	<-time.After(4 * watchDelay)
	require.Equal(t, []string{"Txn"}, since(), "a release wakes only the next waiter")
	require.NoError(t, n.Backend.Close())
	require.ErrorIs(t, n.begin(nil).wait(t.Context(), false), errClosed)
	require.NoError(t, peer.ErrOf(client.Get(t.Context(), "x")))
}
