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
	"github.com/lockport/lockport/internal/lab/servers"
)

// newCallers is a client as a caller has it, with clientv3's own settings, and options of its connection.
func newCallers(t *testing.T, s *servers.Etcd, o ...grpc.DialOption) *clientv3.Client {
	config := newConfig([]string{s.Addr()})
	config.DialOptions, config.MaxUnaryRetries = o, 0
	c, err := clientv3.New(*config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// newNodeOn is a node on the caller's client.
func newNodeOn(t *testing.T, c *clientv3.Client) *node {
	b, err := NewBackend(c, Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.Close() })
	return &node{Backend: b, t: t, name: "caller's"}
}

// newNodeThrough is a node with something between clientv3, which may repeat requests, and etcd.
func newNodeThrough(t *testing.T, s *servers.Etcd, between grpc.UnaryClientInterceptor) *node {
	return newNodeOn(t, newCallers(t, s, grpc.WithChainUnaryInterceptor(between)))
}

// A client whose interfaces are wrapped with package namespace has its locks there, and excludes nobody elsewhere.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	s := servers.NeedEtcd(t, servers.EtcdOptions{})
	etcd := newClient(t, s.URL())
	wrapped := func(prefix string) *node {
		c := newCallers(t, s)
		c.KV, c.Lease, c.Watcher = namespace.NewKV(c.KV, prefix), namespace.NewLease(c.Lease, prefix), namespace.NewWatcher(c.Watcher, prefix)
		return newNodeOn(t, c)
	}
	a, again, b := wrapped("team-a/"), wrapped("team-a/"), wrapped("team-b/")
	lost := make(chan error, 1)
	req := a.request("x")
	req.Lost = func(err error) { lost <- err }
	held := a.takes(req)
	elsewhere := b.takes(b.request("x"))
	next := again.request("x")
	_, err := again.try(next)
	require.ErrorIs(t, err, driver.ErrHeld)
	status, err := again.Inspect(t.Context(), "x")
	require.NoError(t, err)
	require.Equal(t, []any{req.Owner, 1}, []any{status.Owner, status.Waiters})
	list, err := again.List(t.Context(), "")
	require.NoError(t, err)
	require.Len(t, list, 1)
	r, err := etcd.Get(t.Context(), "", clientv3.WithPrefix())
	require.NoError(t, err)
	require.Len(t, r.Kvs, 3)
	for _, kv := range r.Kvs {
		require.Regexp(t, "^team-[ab]/lockport/x/", string(kv.Key))
	}

	// The watches are there too: of the holder, and of the one who waits.
	<-time.After(4 * holderPatience)
	granted := make(chan error, 1)
	go func() { _, err := again.Wait(t.Context(), next); granted <- err }()
	require.NoError(t, a.Break(t.Context(), "x", req.Owner))
	require.ErrorIs(t, <-lost, driver.ErrLost)
	require.NoError(t, <-granted)
	require.ErrorIs(t, release(held), driver.ErrLost)
	frees(t, elsewhere)
}

// An interceptor of the caller's connection sees every request of a lock's life.
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
	n := newNodeOn(t, newCallers(t, s,
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, q, r any, cc *grpc.ClientConn, next grpc.UnaryInvoker, o ...grpc.CallOption) error {
			note(method)
			return next(ctx, method, q, r, cc, o...)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, method string, next grpc.Streamer, o ...grpc.CallOption) (grpc.ClientStream, error) {
			note(method)
			return next(ctx, d, cc, method, o...)
		})))
	received := counter(t, s)
	req := n.request("x")
	req.TTL = time.Minute
	lease := n.takes(req)
	require.Equal(t, []string{"LeaseGrant", "Txn"}, since())
	require.EqualValues(t, 2, received())
	_, err := driver.Renew(t.Context(), n, lease)
	require.NoError(t, err)
	eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return len(seen) >= 3 }, "the watch")
	<-time.After(4 * holderPatience)
	require.Equal(t, []string{"LeaseKeepAlive", "Txn", "Watch"}, since())
	frees(t, lease)
	require.Equal(t, []string{"Txn"}, since())
	other := n.request("y")
	require.NoError(t, n.Abandon(t.Context(), other))
	require.Equal(t, []string{"Range"}, since())
}

// counter counts what etcd receives.
func counter(t *testing.T, s *servers.Etcd) func() int64 {
	last, err := requestsOf(t.Context(), s)
	require.NoError(t, err)
	return func() int64 {
		now, err := requestsOf(t.Context(), s)
		require.NoError(t, err)
		n := now - last
		last = now
		return n
	}
}
