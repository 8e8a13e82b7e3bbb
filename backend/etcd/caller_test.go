package etcd

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/namespace"
	"google.golang.org/grpc"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
)

// A client wrapped with package namespace keeps its locks and watches in that namespace, and excludes nobody outside.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	s := servers.NeedEtcd(t, servers.EtcdOptions{})
	wrapped := func(prefix string) *node {
		c := newClient(t, s.Addr())
		c.KV, c.Lease, c.Watcher = namespace.NewKV(c.KV, prefix), namespace.NewLease(c.Lease, prefix), namespace.NewWatcher(c.Watcher, prefix)
		return newNodeOn(t, c)
	}
	a, again, b := wrapped("team-a/"), wrapped("team-a/"), wrapped("team-b/")
	lost, granted := make(chan error, 1), make(chan error, 1)
	req, next := a.Request("x"), again.Request("x")
	req.Lost = func(err error) { lost <- err }
	a.Takes(req)
	b.Takes(b.Request("x"))
	again.Waits(next)
	r, err := newClient(t, s.Addr()).Get(t.Context(), "", clientv3.WithPrefix())
	require.NoError(t, err)
	require.Len(t, r.Kvs, 3)
	for _, kv := range r.Kvs {
		require.Regexp(t, "^team-[ab]/lockport/x/", string(kv.Key))
	}
	<-time.After(4 * watchDelay) // until the holder's watch has begun
	go func() { _, err := again.Wait(t.Context(), next); granted <- err }()
	require.NoError(t, a.Break(t.Context(), "x", req.Owner))
	require.ErrorIs(t, peer.Eventually(t, lost), driver.ErrLost)
	require.NoError(t, peer.Eventually(t, granted))
}

// An interceptor of the caller's connection sees every request for a lock, and no other is sent. Closing the backend leaves the
// connection open.
func TestInterceptorSeesEveryRequest(t *testing.T) {
	t.Parallel()
	s := servers.NeedEtcd(t, servers.EtcdOptions{})
	var mu sync.Mutex
	var seen []string
	note := func(method string) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, method[strings.LastIndex(method, "/")+1:])
	}
	since := func() []string {
		mu.Lock()
		defer mu.Unlock()
		all := seen
		seen = nil
		slices.Sort(all)
		return all
	}
	client := newClient(t, s.Addr(),
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, q, r any, cc *grpc.ClientConn, next grpc.UnaryInvoker, o ...grpc.CallOption) error {
			note(method)
			return next(ctx, method, q, r, cc, o...)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, method string, next grpc.Streamer, o ...grpc.CallOption) (grpc.ClientStream, error) {
			note(method)
			return next(ctx, d, cc, method, o...)
		}))
	n := newNodeOn(t, client)
	before, err := requestsOf(t.Context(), s)
	require.NoError(t, err)
	req := n.Request("x")
	req.TTL = time.Minute
	lease := n.Takes(req)
	require.Equal(t, []string{"LeaseGrant", "Txn"}, since())
	after, err := requestsOf(t.Context(), s)
	require.NoError(t, err)
	require.EqualValues(t, 2, after-before)
	_, err = n.Renews(lease)
	require.NoError(t, err)
	peer.Until(t, func() bool { mu.Lock(); defer mu.Unlock(); return len(seen) >= 3 })
	<-time.After(4 * watchDelay)
	require.Equal(t, []string{"LeaseKeepAlive", "Txn", "Watch"}, since())
	n.Frees(lease)
	require.Equal(t, []string{"Txn"}, since())
	n.Abandons(n.Request("y"))
	require.Equal(t, []string{"Range"}, since())
	require.NoError(t, n.Backend.Close())
	_, err = client.Get(t.Context(), "x")
	require.NoError(t, err)
}
