package zookeeper

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

// soon is far more than anything takes that follows at once, on a busy machine too.
const soon = 10 * time.Second

// fresh is a name that no test has used, of a node that stays.
func fresh(t testing.TB) string { return fmt.Sprint(t.Name(), time.Now().UnixNano()) }

// testTTL is twenty ticks of the servers.
const testTTL = 2 * time.Second

func newBackend(t testing.TB, o Options, addrs ...string) *Backend {
	if o.TTL == 0 {
		o.TTL = testTTL
	}
	b, err := ConnectBackend(addrs, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

// newRaw is a plain client of go-zookeeper.
func newRaw(t testing.TB, addrs ...string) *zk.Conn {
	conn, _, err := zk.Connect(addrs, 30*time.Second, zk.WithLogger(silent{}), zk.WithLogInfo(false), zk.WithDialer(servers.DialZooKeeper))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return conn
}

// newClient is a client of lockport with a backend of its own.
func newClient(t testing.TB, o Options, addrs ...string) (*lockport.Client, *Backend) {
	b := newBackend(t, o, addrs...)
	c, err := lockport.New(b, lockport.TTL(b.o.TTL))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c, b
}

// request is a claim that does not wait.
func request(b *Backend, name string) driver.Request {
	var id [16]byte
	_, _ = rand.Read(id[:])
	return driver.Request{Name: name, Owner: fmt.Sprintf("%x:test/1", id), TTL: b.o.TTL}
}

func try(b *Backend, req driver.Request) (driver.Lease, error) {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	return b.TryAcquire(ctx, req)
}

// takes claims, which must succeed.
func takes(t testing.TB, b *Backend, req driver.Request) *claim {
	t.Helper()
	lease, err := try(b, req)
	require.NoError(t, err)
	return lease.(*claim)
}

func frees(t testing.TB, lease driver.Lease) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	require.NoError(t, lease.Release(ctx))
}

// acquires has the lock, soon.
func acquires(t testing.TB, c *lockport.Client, name string) *lockport.Lock {
	t.Helper()
	lock, err := c.Acquire(within(t, soon), name)
	require.NoError(t, err)
	return lock
}

// acquiring acquires in the background; granted waits for that.
func acquiring(t testing.TB, c *lockport.Client, name string) (granted func() *lockport.Lock) {
	var lock *lockport.Lock
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		lock, err = c.Acquire(context.Background(), name)
	}()
	return func() *lockport.Lock {
		t.Helper()
		select {
		case <-done:
		case <-time.After(soon):
			t.Fatal("the waiter never got the lock")
		}
		require.NoError(t, err)
		return lock
	}
}

// newProxy stands before a server.
func newProxy(t testing.TB, addr string) *faultproxy.Proxy {
	t.Helper()
	proxy, err := faultproxy.New(addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = proxy.Close() })
	return proxy
}

// within is a context for what follows soon.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// newShared is a connection of a caller's, whose session timeout is testTTL, and a backend on it.
func newShared(t testing.TB, o Options, addrs ...string) (*zk.Conn, *Backend) {
	o.Log, o.TTL, o.TickTime = new(Log), testTTL, 100*time.Millisecond
	conn, _, err := zk.Connect(addrs, testTTL, zk.WithLogger(o.Log))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	b, err := NewBackend(conn, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return conn, b
}

// sessionOf is the session of b.
func sessionOf(b *Backend) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.observe()
	return b.session.id
}

// endSession ends the session of b at the server, as its expiry does.
func endSession(t testing.TB, b *Backend, s *servers.ZooKeeper) {
	t.Helper()
	session := sessionOf(b)
	require.Eventually(t, func() bool { // the client may be quicker, and attach it again
		require.NoError(t, s.EndSession(within(t, soon), session))
		return sessionOf(b) != session
	}, soon, 20*time.Millisecond)
}

// find returns the claim of req, or nil.
func (b *Backend) find(req driver.Request) *claim {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.claims[claimKey{req.Name, req.Owner}]
}

// silent is a zk.Logger.
type silent struct{}

func (silent) Printf(string, ...any) {}
