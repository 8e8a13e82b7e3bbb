package etcd

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/namespace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lockport/lockport/conformance/faultproxy"
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

// clientv3 repeats what was cancelled, although it may have been, or may still be, carried out. Neither changes anything.
func TestRepeatedRequests(t *testing.T) {
	t.Parallel()
	s := servers.NeedEtcd(t, servers.EtcdOptions{})
	etcd := newClient(t, s.URL())
	var cancel, slow atomic.Bool
	var repeat func() // sends what was cancelled once more
	sent := 0
	n := newNodeThrough(t, s, func(ctx context.Context, method string, q, r any, cc *grpc.ClientConn, next grpc.UnaryInvoker, o ...grpc.CallOption) error {
		if _, ok := q.(*pb.TxnRequest); !ok || !cancel.Load() {
			return next(ctx, method, q, r, cc, o...)
		}
		if sent++; sent > 1 {
			return next(ctx, method, q, r, cc, o...)
		}
		repeat = func() { require.NoError(t, next(context.WithoutCancel(ctx), method, q, new(pb.TxnResponse), cc, o...)) }
		if slow.Load() {
			<-time.After(repeatedAfter)
		} else {
			repeat()
		}
		return status.Error(codes.Canceled, "cancelled")
	})
	repeats := func(do func()) {
		sent = 0
		cancel.Store(true)
		do()
		cancel.Store(false)
		require.Greater(t, sent, 1)
	}

	// The first one was carried out.
	var lease driver.Lease
	repeats(func() { lease = n.takes(n.request("x")) })
	kvs := keysOf(t, etcd, "x")
	require.Len(t, kvs, 1)
	require.EqualValues(t, kvs[0].CreateRevision, lease.Grant().Token)
	repeats(func() {
		require.ErrorIs(t, release(lease), driver.ErrLost, "what etcd says: the core knows better, before the deadline")
	})
	next := n.takes(n.request("x"))
	repeat()
	require.Len(t, keysOf(t, etcd, "x"), 1, "a release that is late")
	frees(t, next)

	// The first one arrives when the lock has been released, or abandoned.
	slow.Store(true)
	for _, queue := range []bool{false, true} {
		req := n.request("x")
		req.Queue = queue
		repeats(func() { lease = n.takes(req) })
		frees(t, lease)
		repeat()
		require.Empty(t, keysOf(t, etcd, "x"))

		held := n.takes(n.request("x"))
		repeats(func() {
			_, err := n.try(req)
			if !queue {
				require.ErrorIs(t, err, driver.ErrUnknown, "it may arrive later, and be granted")
			}
		})
		require.NoError(t, n.Abandon(t.Context(), req))
		frees(t, held)
		repeat()
		require.Empty(t, keysOf(t, etcd, "x"))
	}
}

// A transaction that fills etcd is carried out, and answered as if it had not been.
func TestOutOfSpaceAfterAll(t *testing.T) {
	t.Parallel()
	s := servers.NeedEtcd(t, servers.EtcdOptions{})
	etcd := newClient(t, s.URL())
	var full atomic.Bool
	n := newNodeThrough(t, s, func(ctx context.Context, method string, q, r any, cc *grpc.ClientConn, next grpc.UnaryInvoker, o ...grpc.CallOption) error {
		err := next(ctx, method, q, r, cc, o...)
		if _, ok := q.(*pb.TxnRequest); ok && err == nil && full.Load() {
			return rpctypes.ErrGRPCNoSpace
		}
		return err
	})
	lease := n.takes(n.request("x"))
	full.Store(true)
	req := n.request("y")
	_, err := n.try(req)
	require.ErrorIs(t, err, driver.ErrUnknown)
	_, released, err := n.Requeue(t.Context(), lease, n.request("x"))
	require.ErrorIs(t, released, driver.ErrUnknown)
	require.ErrorIs(t, err, driver.ErrUnknown)
	require.ErrorIs(t, release(lease), driver.ErrUnknown)
	require.ErrorIs(t, release(lease), driver.ErrLost, "now it is certain")
	full.Store(false)
	require.NoError(t, n.Abandon(t.Context(), req))
	require.Empty(t, keysOf(t, etcd, "y"))
}

// A waiter whose look is not answered looks again, and keeps its lease alive meanwhile.
func TestLookThatIsNotAnswered(t *testing.T) {
	t.Parallel()
	s := servers.NeedEtcd(t, servers.EtcdOptions{})
	var silent atomic.Bool
	n := newNodeThrough(t, s, func(ctx context.Context, method string, q, r any, cc *grpc.ClientConn, next grpc.UnaryInvoker, o ...grpc.CallOption) error {
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
	var lease driver.Lease
	go func() {
		var err error
		lease, err = n.Wait(ctx, req)
		granted <- err
	}()
	<-time.After(100 * time.Millisecond) // it watches the holder's key
	silent.Store(true)
	frees(t, held)
	freed := time.Now()
	require.NoError(t, <-granted)
	require.False(t, silent.Load())
	require.Less(t, time.Since(freed), req.TTL)
	require.EqualValues(t, keysOf(t, newClient(t, s.URL()), "x")[0].CreateRevision, lease.Grant().Token)
}

// watchers is a clientv3.Watcher that answers with what it has, and notes from which revision it was asked.
type watchers struct {
	clientv3.Watcher
	asked   chan int64
	answers chan []clientv3.WatchResponse
}

func (w *watchers) Watch(_ context.Context, _ string, o ...clientv3.OpOption) clientv3.WatchChan {
	op := clientv3.OpGet("", o...)
	w.asked <- op.Rev()
	all := <-w.answers
	ch := make(chan clientv3.WatchResponse, len(all))
	for _, r := range all {
		ch <- r
	}
	close(ch)
	return ch
}

// etcd sends a watch that begins in the past what has happened in parts, each with the revision of the store.
func TestWatchGoesOnAfterTheLastEvent(t *testing.T) {
	t.Parallel()
	w := &watchers{asked: make(chan int64), answers: make(chan []clientv3.WatchResponse)}
	c := clientv3.NewCtxClient(t.Context())
	c.Watcher = w
	b := newBackendOn(t, c)
	told, missed := 0, 0
	b.mu.Lock()
	watched := &watch{within: "x/", from: 1, events: witness{func() { told++ }, func() { missed++ }}}
	b.watches.add(watched)
	b.mu.Unlock()
	event := func(revision int64) *clientv3.Event {
		return &clientv3.Event{Kv: &mvccpb.KeyValue{ModRevision: revision}}
	}
	at := func(revision int64, r clientv3.WatchResponse) clientv3.WatchResponse {
		header := reflect.ValueOf(&r).Elem().FieldByName("Header") // a pointer since clientv3 3.7
		if header.Kind() == reflect.Pointer {
			header.Set(reflect.New(header.Type().Elem()))
			header = header.Elem()
		}
		header.FieldByName("Revision").SetInt(revision)
		return r
	}
	for _, step := range []struct {
		from   int64
		answer []clientv3.WatchResponse
	}{
		{1, []clientv3.WatchResponse{at(5000, clientv3.WatchResponse{Events: []*clientv3.Event{event(999), event(1000)}})}},
		{1001, []clientv3.WatchResponse{at(5000, clientv3.WatchResponse{CompactRevision: 2000, Canceled: true})}},
		{0, []clientv3.WatchResponse{at(6000, clientv3.WatchResponse{Created: true})}},
	} {
		require.Equal(t, step.from, <-w.asked)
		w.answers <- step.answer
	}
	require.EqualValues(t, 6001, <-w.asked)
	require.Equal(t, []int{2, 2}, []int{told, missed})
	b.cancel()
	w.answers <- nil
}

func newBackendOn(t *testing.T, c *clientv3.Client) *Backend {
	b, err := newBackend(&link{client: c}, Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.Close() })
	return b
}

type witness struct{ told, lost func() }

func (w witness) happened(string, bool) { w.told() }
func (w witness) missed()               { w.lost() }

// A watch that joins the one that all share looks for itself if that one has told of its time already.
func TestJoiningTheSharedWatch(t *testing.T) {
	b := newBackendOn(t, clientv3.NewCtxClient(t.Context()))
	missed := make(chan int64, 3)
	b.mu.Lock()
	b.watches.shared, b.watches.next = func() {}, 10
	for _, w := range []*watch{{from: 9}, {from: 10}, {seen: 8}, {seen: 9}} {
		w.events = witness{nil, func() { missed <- w.from + w.seen }}
		b.watches.add(w)
	}
	b.mu.Unlock()
	require.ElementsMatch(t, []int64{9, 8}, []int64{<-missed, <-missed})
	require.NoError(t, b.Close())
	require.Empty(t, missed)
}

// A process with many locks has one watch for all. Its holders are told as those with watches of their own are, whether they were granted before it
// began, or later, and when there are few again.
func TestSharedWatch(t *testing.T) {
	t.Parallel()
	s := servers.NeedEtcd(t, servers.EtcdOptions{})
	etcd := newClient(t, s.URL())
	n := newNode(t, s.URL(), "a")
	lost := make(chan int, 100)
	var leases []*claim
	takes := func(i int) {
		req := n.request(name(i))
		req.TTL = time.Minute // no renewal looks
		req.Lost = func(error) { lost <- i }
		leases = append(leases, n.takes(req).(*claim))
	}
	removes := func(i int) {
		t.Helper()
		_, err := etcd.Delete(t.Context(), leases[i].key)
		require.NoError(t, err)
		select {
		case told := <-lost:
			require.Equal(t, i, told)
		case <-time.After(soon):
			require.FailNow(t, "the holder was not told")
		}
	}
	shares := func() bool { n.mu.Lock(); defer n.mu.Unlock(); return n.watches.shared != nil }
	for i := range ownWatches + 8 {
		takes(i)
	}
	removes(0)
	eventually(t, shares, "a watch for all")
	removes(1)
	takes(len(leases))
	removes(len(leases) - 1)
	other, waits := newNode(t, s.URL(), "other"), n.request("waits")
	held := other.takes(other.request("waits"))
	_, err := n.try(waits)
	require.ErrorIs(t, err, driver.ErrHeld)
	granted := make(chan error, 1)
	go func() { _, err := n.Wait(t.Context(), waits); granted <- err }()
	<-time.After(holderPatience)
	start := time.Now()
	frees(t, held)
	require.NoError(t, <-granted)
	require.Less(t, time.Since(start), lookEvery/2)
	for _, c := range leases[2 : ownWatches-1] {
		if err := release(c); !errors.Is(err, driver.ErrLost) {
			require.NoError(t, err)
		}
	}
	require.False(t, shares())
	removes(ownWatches)
}

// gRPC pauses for up to two minutes between two attempts to connect. A claim cuts that short, and is never kept until there is a connection.
func TestPauseBetweenConnectionsIsCutShort(t *testing.T) {
	t.Parallel()
	s := servers.NeedEtcd(t, servers.EtcdOptions{})
	proxy, err := faultproxy.New(s.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = proxy.Close() })
	config := newConfig([]string{proxy.Addr()})
	pause := backoff.Config{BaseDelay: time.Minute, Multiplier: 1, MaxDelay: time.Minute}
	config.DialOptions = []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{Backoff: pause, MinConnectTimeout: time.Second})}
	c, err := clientv3.New(*config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	n := newNodeOn(t, c)
	frees(t, n.takes(n.request("x")))
	proxy.Cut()
	eventually(t, func() bool {
		start := time.Now()
		_, err := n.try(n.request("x"))
		require.Error(t, err)
		require.Less(t, time.Since(start), soon/2)
		return errors.Is(err, driver.ErrUnavailable)
	}, "a refusal")
	proxy.Restore()
	eventually(t, func() bool {
		lease, err := n.try(n.request("y"))
		return err == nil && release(lease) == nil
	}, "a connection")
}

// lateStream hands on what it receives later.
type lateStream struct {
	grpc.ClientStream
	by time.Duration
}

func (s lateStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	<-time.After(s.by)
	return err
}

// A keep-alive that is answered after a renewal has given it up counts for the next.
func TestLateKeepAliveCounts(t *testing.T) {
	t.Parallel()
	s := servers.NeedEtcd(t, servers.EtcdOptions{})
	n := newNodeOn(t, newCallers(t, s, grpc.WithChainStreamInterceptor(
		func(ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, method string, next grpc.Streamer, o ...grpc.CallOption) (grpc.ClientStream, error) {
			stream, err := next(ctx, d, cc, method, o...)
			if strings.HasSuffix(method, "KeepAlive") {
				stream = lateStream{stream, 600 * time.Millisecond}
			}
			return stream, err
		})))
	lease := n.takes(n.request("x"))
	renew := func() (time.Time, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		return driver.Renew(ctx, n, lease)
	}
	began := time.Now()
	_, err := renew()
	require.ErrorIs(t, err, driver.ErrUnknown)
	<-time.After(700 * time.Millisecond)
	until, err := renew()
	require.NoError(t, err)
	require.True(t, until.After(lease.Grant().Until))
	require.Less(t, until.Sub(began), 2100*time.Millisecond, "from before it was sent")
	_, err = renew()
	require.ErrorIs(t, err, driver.ErrUnknown, "the same answer counts once")
	frees(t, lease)
}
