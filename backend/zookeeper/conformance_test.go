package zookeeper

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

// testTTL is the session timeout of the suites: twenty ticks of the servers.
const testTTL = 2 * time.Second

func TestConformance(t *testing.T) {
	s := servers.NeedZooKeeper(t, servers.ZooKeeperOptions{})
	conns := make(map[string]*openConns) // by target
	lane := func() conformance.Lane {
		proxy, err := faultproxy.New(s.Addr())
		require.NoError(t, err)
		t.Cleanup(func() { _ = proxy.Close() })
		target, open := testURL([]string{proxy.Addr()}), new(openConns)
		conns[target] = open
		f := faults(newRaw(t, s.Addr()), s, proxy)
		f.Conns = func(context.Context) (int, error) { return int(open.n.Load()), nil }
		return conformance.Lane{Target: target, Faults: f}
	}
	first := lane()
	conformance.Test(t, conformance.Config{
		Open: func(ctx context.Context, rawURL string) (driver.Backend, error) {
			b, err := openURL(ctx, rawURL)
			if b, ok := b.(*Backend); ok && conns[rawURL] != nil {
				b.o.Dial = conns[rawURL].dial
			}
			return b, err
		},
		Target: first.Target,
		Direct: testURL([]string{s.Addr()}),
		Faults: first.Faults,
		Lanes:  []conformance.Lane{lane(), lane(), lane(), lane()},
	})
}

// openConns counts connections on the client's side. The proxy counts one until the server has closed it too, and a server that is just
// starting takes up to 10 s for one that was opened, used and closed before it served.
type openConns struct{ n atomic.Int64 }

func (o *openConns) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	o.n.Add(1)
	return &countedConn{Conn: conn, left: func() { o.n.Add(-1) }}, nil
}

type countedConn struct {
	net.Conn
	once sync.Once
	left func()
}

func (c *countedConn) Close() error {
	c.once.Do(c.left)
	return c.Conn.Close()
}

// testURL is that of a backend with the suites' session timeout.
func testURL(addrs []string) string {
	return "zookeeper://" + strings.Join(addrs, ",") + "/conformance?ttl=" + testTTL.String()
}

// faults are those of a single server behind a proxy.
func faults(raw *zk.Conn, s *servers.ZooKeeper, proxy *faultproxy.Proxy) conformance.Faults {
	f := nodeFaults(raw)
	f.Restore = proxy.Restore
	f.Sever = func(context.Context) error { proxy.Cut(); return nil }
	f.Cut = func(context.Context) error { proxy.KillConns(); return nil }
	f.Freeze = func(context.Context) error { proxy.Freeze(); return nil }
	f.Delay = func(_ context.Context, d time.Duration) error { proxy.Delay(d / 2); return nil } // there and back
	f.DropReply = func(_ context.Context, op conformance.Op) (<-chan struct{}, error) {
		return proxy.DropReply(func(request []byte) bool { return isOp(op, request) }), nil
	}
	f.CutAfter = func(_ context.Context, n int) (<-chan struct{}, error) { return proxy.CutAfter(n), nil }
	f.Requests = func(context.Context) (int64, error) { return proxy.Requests(), nil }
	f.Restart = func(ctx context.Context, keepData bool) error {
		if err := s.Stop(); err != nil {
			return err
		}
		if !keepData {
			if err := s.WipeData(); err != nil {
				return err
			}
		}
		return restart(ctx, s)
	}
	return f
}

// restart starts a server again. The goroutine that waits for the process is not the case's, by whose labels the suite looks for leaks.
func restart(ctx context.Context, s *servers.ZooKeeper) error {
	done := make(chan error)
	go func() {
		pprof.SetGoroutineLabels(context.Background())
		done <- s.Restart(ctx)
	}()
	return <-done
}

// isOp tells requests apart by their operation. Several may have been written together.
func isOp(op conformance.Op, p []byte) bool {
	if op == conformance.OpAny {
		return true
	}
	wanted := map[conformance.Op]int32{conformance.OpAcquire: opCreate, conformance.OpRenew: opMulti, conformance.OpRelease: opDelete}[op]
	for len(p) >= 12 {
		n := int(binary.BigEndian.Uint32(p)) + 4
		if int32(binary.BigEndian.Uint32(p[8:])) == wanted {
			return true
		}
		if n > len(p) {
			break
		}
		p = p[n:]
	}
	return false
}

// nodeFaults are those that need no proxy.
func nodeFaults(raw *zk.Conn) conformance.Faults {
	const root = "/conformance"
	// removeUntil deletes the nodes of a lock ahead of stop, or the holder's alone.
	removeUntil := func(name string, stop string) error {
		parent := root + "/" + encodeName(name)
		children, _, err := raw.Children(parent)
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		inOrder(children)
		for _, child := range children {
			path := parent + "/" + child
			if err != nil || path == stop {
				break
			}
			if err = raw.Delete(path, -1); errors.Is(err, zk.ErrNoNode) {
				err = nil
			}
			if stop == "" {
				break
			}
		}
		return err
	}
	return conformance.Faults{
		Remove: func(_ context.Context, name string) error { return removeUntil(name, "") },
		Overwrite: func(_ context.Context, name string) error {
			parent := root + "/" + encodeName(name)
			for _, path := range []string{root, parent} {
				if _, err := raw.CreateContainer(path, nil, zk.FlagContainer, zk.WorldACL(zk.PermAll)); err != nil && !errors.Is(err, zk.ErrNodeExists) {
					return err
				}
			}
			path, err := raw.CreateProtectedEphemeralSequential(parent+"/lock-", []byte("10.0.0.1"), zk.WorldACL(zk.PermAll))
			if err != nil {
				return err
			}
			return removeUntil(name, path)
		},
		Leftovers: func(_ context.Context, prefix string) ([]string, error) {
			if _, err := raw.Sync(root); err != nil {
				return nil, err
			}
			nodes, _, err := raw.Children(root)
			if errors.Is(err, zk.ErrNoNode) {
				return nil, nil
			}
			var left []string
			for _, node := range nodes {
				if name, ok := decodeName(node); !ok || !strings.HasPrefix(name, prefix) {
					continue
				}
				children, _, err := raw.Children(root + "/" + node) // empty containers stay until the server removes them
				if err != nil && !errors.Is(err, zk.ErrNoNode) {
					return nil, err
				}
				for _, child := range children {
					left = append(left, root+"/"+node+"/"+child)
				}
			}
			return left, err
		},
	}
}

// newRaw is a plain client of go-zookeeper.
func newRaw(t testing.TB, addrs ...string) *zk.Conn {
	conn, _, err := zk.Connect(addrs, 30*time.Second, zk.WithLogger(silent{}), zk.WithLogInfo(false), zk.WithDialer(servers.DialZooKeeper))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return conn
}

func TestConformanceEnsemble(t *testing.T) {
	e := servers.NeedEnsemble(t, servers.ZooKeeperOptions{})
	conformance.Test(t, conformance.Config{
		Open:   openURL,
		Target: testURL(e.Addrs()),
		Faults: nodeFaults(newRaw(t, e.Addrs()...)),
	})
}
