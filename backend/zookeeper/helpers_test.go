package zookeeper

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
)

func TestMain(m *testing.M) { peer.Main(m, 4) }

// soon is ample for anything that should follow at once, even on a busy machine.
const soon = 10 * time.Second

// fresh returns an unused name, for a node that is not removed.
func fresh(t testing.TB) string { return fmt.Sprint(t.Name(), time.Now().UnixNano()) }

// testTTL is twenty of the servers' ticks.
const testTTL = 2 * time.Second

// node is a separate backend, like that of another machine.
type node struct {
	*Backend
	*peer.Peer
}

func nodeOf(t testing.TB, b *Backend, err error) *node {
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return &node{b, &peer.Peer{T: t, Of: b, Name: "a", TTL: b.o.TTL}}
}

func newBackend(t testing.TB, o Options, addrs ...string) *node {
	o.TTL = cmp.Or(o.TTL, testTTL)
	b, err := ConnectBackend(addrs, o)
	return nodeOf(t, b, err)
}

// newNodeOn returns a node on a caller's connection.
func newNodeOn(t testing.TB, conn *zk.Conn, o Options) *node {
	b, err := NewBackend(conn, o)
	return nodeOf(t, b, err)
}

// beside lets t run beside other tests, and returns the server that they share, and a plain client.
func beside(t *testing.T) (*servers.ZooKeeper, *zk.Conn) {
	t.Helper()
	t.Parallel()
	s := servers.SharedZooKeeper(t)
	return s, newRaw(t, s.Addr())
}

// newConn returns a caller's connection with session timeout ttl, and the options of a backend on it.
func newConn(t testing.TB, ttl time.Duration, addr string) (*zk.Conn, Options) {
	o := Options{Log: new(Log), TTL: ttl, TickTime: 100 * time.Millisecond}
	conn, _, err := zk.Connect([]string{addr}, ttl, zk.WithLogger(o.Log))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return conn, o
}

// newRaw returns a plain go-zookeeper client.
func newRaw(t testing.TB, addr string) *zk.Conn {
	conn, _ := newConn(t, 30*time.Second, addr)
	return conn
}

// world lets everybody do everything.
var world = zk.WorldACL(zk.PermAll)

// creates makes a node that the server never removes.
func creates(t testing.TB, raw *zk.Conn, path string, acl []zk.ACL) {
	t.Helper()
	require.NoError(t, peer.ErrOf(raw.Create(path, nil, zk.FlagPersistent, acl)))
}

// newClient returns a lockport client with a backend of its own.
func newClient(t testing.TB, o Options, addrs ...string) (*lockport.Client, *node) {
	b := newBackend(t, o, addrs...)
	return peer.Client(t, b.Backend, lockport.TTL(b.o.TTL)), b
}

// request is a claim that does not wait.
func request(b *node, name string) driver.Request { return peer.Once(b.Request(name)) }

// waits waits until name's queue has the given number of claims.
func waits(t testing.TB, b *node, name string, n int) {
	t.Helper()
	peer.Until(t, func() bool { return peer.Shows(t, b, name).Waiters == n-1 })
}

// sessionOf returns the id of b's session.
func sessionOf(b *node) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.observe()
	return b.session.id
}

// find returns the claim of req, or nil.
func (b *Backend) find(req driver.Request) *claim {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.claims[b.newClaim(req).prefix]
}

// sends makes the claim req, and gives it up once go-zookeeper has the creation of its node, which no server answers.
func (n *node) sends(req driver.Request) {
	ctx, cancel := context.WithCancel(n.T.Context())
	failed := make(chan error, 1)
	go func() { _, err := n.TryAcquire(ctx, req); failed <- err }()
	peer.Until(n.T, func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		c := n.claims[n.newClaim(req).prefix]
		return c != nil && c.creation != nil && c.creation.conn != nil
	})
	cancel()
	require.ErrorIs(n.T, <-failed, driver.ErrUnknown)
}

// isOp classifies requests by the protocol's codes for create, multi and delete. One write may contain several.
func isOp(op conformance.Op, p []byte) bool {
	wanted := map[conformance.Op]uint32{conformance.OpAcquire: 1, conformance.OpRenew: 14, conformance.OpRelease: 2}[op]
	for len(p) >= 12 && binary.BigEndian.Uint32(p[8:]) != wanted {
		p = p[min(int(binary.BigEndian.Uint32(p))+4, len(p)):]
	}
	return len(p) >= 12
}

// shared is a backend with its caller, which closes the connection.
type shared struct {
	*Backend
	conn *zk.Conn
}

func (s *shared) Close() error {
	err := s.Backend.Close()
	s.conn.Close()
	return err
}

func openShared(ctx context.Context, rawURL string) (driver.Backend, error) {
	own, err := peer.Open(ctx, rawURL) // reads the URL; it does not connect
	if err != nil {
		return nil, err
	}
	o := Options{Log: new(Log), TTL: own.Capabilities().FixedTTL, TickTime: 100 * time.Millisecond}
	conn, _, err := zk.Connect(own.(*Backend).addresses, o.TTL, zk.WithLogger(o.Log))
	if err != nil {
		return nil, err
	}
	b, err := NewBackend(conn, o)
	return &shared{b, conn}, err
}
