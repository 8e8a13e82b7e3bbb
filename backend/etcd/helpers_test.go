package etcd

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
)

// soon is far more than anything takes that follows at once, on a busy machine too.
const soon = 5 * time.Second

// newClient is a client of etcd with its own settings, but for the log.
func newClient(t testing.TB, rawURL string) *clientv3.Client {
	u, err := url.Parse(rawURL)
	require.NoError(t, err)
	config := newConfig(strings.Split(u.Host, ","))
	config.DialOptions = nil
	c, err := clientv3.New(*config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

var defaultLayout = layout{prefix: defaultPrefix}

// via is rawURL with other addresses.
func via(t testing.TB, rawURL string, addrs ...string) string {
	u, err := url.Parse(rawURL)
	require.NoError(t, err)
	u.Host = strings.Join(addrs, ",")
	return u.String()
}

// newProxy is a proxy to addr.
func newProxy(t testing.TB, addr string) *faultproxy.Proxy {
	proxy, err := faultproxy.New(addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = proxy.Close() })
	return proxy
}

// node is a backend of its own, as good as another machine, and claims in its name.
type node struct {
	*Backend
	t    testing.TB
	name string
}

func newNode(t testing.TB, rawURL, name string) *node {
	b, err := peer.Open(context.Background(), rawURL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.Close() })
	return &node{Backend: b.(*Backend), t: t, name: name}
}

// request is a claim that is ready to wait.
func (n *node) request(name string) driver.Request {
	var id [16]byte
	_, _ = rand.Read(id[:])
	return driver.Request{Name: name, Owner: hex.EncodeToString(id[:]) + ":test/1/" + n.name, TTL: 2 * time.Second, Queue: true}
}

func (n *node) try(req driver.Request) (driver.Lease, error) {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	return n.TryAcquire(ctx, req)
}

// takes claims, which must succeed.
func (n *node) takes(req driver.Request) driver.Lease {
	n.t.Helper()
	lease, err := n.try(req)
	require.NoError(n.t, err)
	return lease
}

// frees releases lease.
func frees(t testing.TB, lease driver.Lease) {
	t.Helper()
	require.NoError(t, release(lease))
}

func release(lease driver.Lease) error {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	return lease.Release(ctx)
}

// requestsOf counts what etcd received: the messages on its streams too.
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
	var n int64
	found := false
	for lines := bufio.NewScanner(r.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), "grpc_server_msg_received_total{"); ok {
			_, value, _ = strings.Cut(value, "} ")
			f, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, err
			}
			n += int64(f)
			found = true
		}
	}
	if !found {
		return 0, errors.New("etcd counts no messages")
	}
	return n, nil
}

// eventually polls.
func eventually(t testing.TB, ok func() bool, what string, args ...any) {
	t.Helper()
	require.Eventually(t, ok, soon, 5*time.Millisecond, fmt.Sprintf(what, args...))
}

// newLocker is a client of lockport on a backend of its own.
func newLocker(t testing.TB, rawURL string, ttl time.Duration) *lockport.Client {
	b, err := peer.Open(context.Background(), rawURL)
	require.NoError(t, err)
	c, err := lockport.New(b, lockport.TTL(ttl), lockport.Logger(nil))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// inMode are the modes of a claim.
var inMode = map[string]func(driver.Request) driver.Request{
	"lock":   func(req driver.Request) driver.Request { return req },
	"reader": func(req driver.Request) driver.Request { req.Shared = true; return req },
	"permit": func(req driver.Request) driver.Request { req.Permits = 1; return req },
}

// keysOf are the keys that etcd has for name, or else for its permits, the one that was there first before the others.
func keysOf(t testing.TB, c *clientv3.Client, name string) []*mvccpb.KeyValue {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	for _, within := range []string{defaultLayout.of(name), defaultLayout.permits(name)} {
		r, err := c.Get(ctx, within, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
		require.NoError(t, err)
		if len(r.Kvs) > 0 {
			return r.Kvs
		}
	}
	return nil
}

// queued waits until etcd has n keys for name.
func queued(t testing.TB, c *clientv3.Client, name string, n int) []*mvccpb.KeyValue {
	t.Helper()
	var kvs []*mvccpb.KeyValue
	eventually(t, func() bool { kvs = keysOf(t, c, name); return len(kvs) == n }, "%d keys of %s", n, name)
	return kvs
}

// acquiring is an Acquire under way.
type acquiring struct {
	lock *lockport.Lock
	err  error
	done chan struct{}
}

func acquire(t testing.TB, c *lockport.Client, name string, opts ...lockport.AcquireOption) *acquiring {
	a := &acquiring{done: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(a.done)
		a.lock, a.err = c.Acquire(ctx, name, opts...)
	}()
	t.Cleanup(func() { cancel(); <-a.done })
	return a
}

// gets waits for the lock.
func (a *acquiring) gets(t testing.TB) *lockport.Lock {
	t.Helper()
	select {
	case <-a.done:
	case <-time.After(2 * soon):
		require.FailNow(t, "the lock was not granted")
	}
	require.NoError(t, a.err)
	return a.lock
}

func holds(t testing.TB, c *lockport.Client, name string, opts ...lockport.AcquireOption) *lockport.Lock {
	t.Helper()
	return acquire(t, c, name, opts...).gets(t)
}

// waits checks that it is not granted for a moment.
func (a *acquiring) waits(t testing.TB, why string) {
	t.Helper()
	select {
	case <-a.done:
		require.FailNow(t, "it does not wait", "%s: %v", why, a.err)
	case <-time.After(50 * time.Millisecond):
	}
}

// loses waits until the lock is lost.
func loses(t testing.TB, l *lockport.Lock) {
	t.Helper()
	select {
	case <-l.Lost():
	case <-time.After(soon):
		require.FailNow(t, "the holder was not told")
	}
	require.ErrorIs(t, l.Err(), lockport.ErrLost)
}
