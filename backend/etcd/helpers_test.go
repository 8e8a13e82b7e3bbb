package etcd

import (
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
)

func TestMain(m *testing.M) { peer.Main(m, 4) }

const soon = peer.Soon

var defaultLayout = layout{prefix: defaultPrefix}

// newClient returns a caller's etcd client: clientv3's defaults without a log, and dial options.
func newClient(t testing.TB, addr string, o ...grpc.DialOption) *clientv3.Client {
	config := newConfig([]string{addr})
	config.DialOptions, config.MaxUnaryRetries = o, 0
	c := peer.Must(clientv3.New(*config))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// node is a separate backend, like that of another machine.
type node struct {
	*Backend
	*peer.Peer
}

func nodeOf(t testing.TB, b driver.Backend, err error) *node {
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.Close() })
	return &node{b.(*Backend), &peer.Peer{T: t, Of: b, Name: "a"}}
}

func newNode(t testing.TB, rawURL string) *node { return nodeOf(t, peer.Opened(t, rawURL), nil) }

// alone starts an etcd for a test that runs beside others, a caller's client, and a node.
func alone(t *testing.T, flags ...string) (s *servers.Etcd, etcd *clientv3.Client, n *node) {
	t.Helper()
	t.Parallel()
	s = servers.NeedEtcd(t, servers.EtcdOptions{Flags: flags})
	return s, newClient(t, s.Addr()), newNode(t, s.URL())
}

// newNodeOn returns a node on the caller's client.
func newNodeOn(t testing.TB, c *clientv3.Client) *node {
	b, err := NewBackend(c, Options{})
	return nodeOf(t, b, err)
}

// between stands between clientv3, which may repeat transactions, and etcd. send sends txn on, resend also later.
type between = func(ctx context.Context, txn *pb.TxnRequest, send, resend func() error) error

func through(f between) grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(
		func(ctx context.Context, method string, q, r any, cc *grpc.ClientConn, next grpc.UnaryInvoker, o ...grpc.CallOption) error {
			send := func() error { return next(ctx, method, q, r, cc, o...) }
			if txn, ok := q.(*pb.TxnRequest); ok {
				return f(ctx, txn, send, func() error { return next(context.WithoutCancel(ctx), method, q, new(pb.TxnResponse), cc, o...) })
			}
			return send()
		})
}

// rejects answers the next transactions, as many as left says, with err.
func rejects(left *atomic.Int64, err error) grpc.DialOption {
	return through(func(_ context.Context, _ *pb.TxnRequest, send, _ func() error) error {
		if left.Add(-1) >= 0 {
			return err
		}
		return send()
	})
}

// newNodeThrough returns a node on a caller's client, with f between it and etcd.
func newNodeThrough(t testing.TB, s *servers.Etcd, f between) *node {
	return newNodeOn(t, newClient(t, s.Addr(), through(f)))
}

// newLocker returns a lockport client with a backend of its own.
func newLocker(t testing.TB, rawURL string, ttl time.Duration) *lockport.Client {
	return peer.Client(t, peer.Opened(t, rawURL), lockport.TTL(ttl))
}

// notYet checks that nothing arrives for a moment.
func notYet[T any](t testing.TB, c <-chan T, why string) {
	t.Helper()
	select {
	case got := <-c:
		require.FailNow(t, "it does not wait", "%s: %v", why, got)
	case <-time.After(50 * time.Millisecond):
	}
}

// inEachMode returns new claims on name in each mode, with and without a place in the queue.
func (n *node) inEachMode(name string) []driver.Request {
	all := []driver.Request{n.Request(name), peer.Reading(n.Request(name)), peer.Permit(n.Request(name), 1)}
	for _, req := range all {
		req.Owner = n.Request(name).Owner
		all = append(all, peer.Once(req))
	}
	return all
}

// keysOf returns etcd's keys for name, or else for its permits, oldest first.
func keysOf(t testing.TB, c *clientv3.Client, name string) []*mvccpb.KeyValue {
	t.Helper()
	for _, prefix := range defaultLayout.prefixes(name) {
		r := peer.Must(c.Get(peer.Within(t, soon), prefix, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend)))(t)
		if len(r.Kvs) > 0 {
			return r.Kvs
		}
	}
	return nil
}

// queued waits until etcd has n keys for name.
func queued(t testing.TB, c *clientv3.Client, name string, n int) (kvs []*mvccpb.KeyValue) {
	t.Helper()
	peer.Until(t, func() bool { kvs = keysOf(t, c, name); return len(kvs) == n })
	return kvs
}

// requestsOf counts the requests that etcd received, including messages on streams.
func requestsOf(ctx context.Context, s *servers.Etcd) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Addr()+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	req.Close = true
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = r.Body.Close() }()
	metrics, err := io.ReadAll(r.Body)
	var n float64
	for _, line := range regexp.MustCompile(`(?m)^grpc_server_msg_received_total\{.*\} (\S+)$`).FindAllSubmatch(metrics, -1) {
		f, bad := strconv.ParseFloat(string(line[1]), 64)
		n, err = n+f, errors.Join(err, bad)
	}
	if n == 0 {
		err = errors.Join(err, errors.New("etcd counts no messages"))
	}
	return int64(n), err
}

// These match protobuf messages: a put of our value, the deletion of a key, and a keep-alive, which is a lease's id of 8 to 10 bytes.
var (
	puts       = regexp.MustCompile(`(?s)\x12.{1,2}` + valueTag).Match
	deletes    = regexp.MustCompile(`(?s)\x1a.{1,2}\n.{1,2}` + defaultPrefix).Match
	keepsAlive = regexp.MustCompile(`\x00{4}[\t-\x0b]\x08`).Match
)

// isOp classifies requests. A requeue deletes a key and puts another: it is a claim.
var isOp = peer.Ops{
	conformance.OpAcquire: puts,
	conformance.OpRenew:   keepsAlive,
	conformance.OpRelease: func(request []byte) bool { return deletes(request) && !puts(request) },
}.Is
