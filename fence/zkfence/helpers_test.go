package zkfence

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/zookeeper"
	"github.com/lockport/lockport/internal/lab/fencetest"
	"github.com/lockport/lockport/internal/lab/servers"
)

// soon is far more than anything takes that follows at once, on a busy machine too.
const soon = 10 * time.Second

func newConn(t testing.TB, addrs ...string) *zk.Conn {
	c, _, err := zk.Connect(addrs, 10*time.Second, zk.WithLogger(silent{}), zk.WithLogInfo(false), zk.WithDialer(servers.DialZooKeeper))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// place is a ZooKeeper with a fence, and a node of data.
type place struct {
	t      testing.TB
	server *servers.ZooKeeper
	conn   *zk.Conn
	fence  *Fence
	data   string
}

func newPlace(t testing.TB) *place {
	return newPlaceOn(t, servers.SharedZooKeeper(t))
}

func newPlaceOn(t testing.TB, s *servers.ZooKeeper) *place {
	p := &place{t: t, server: s, conn: newConn(t, s.Addr())}
	name := rand.Text()
	p.data = "/" + name
	_, err := p.conn.Create(p.data, nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	p.fence = newFence(t, p.conn, "/fences/of/"+name)
	return p
}

func newFence(t testing.TB, c *zk.Conn, path string) *Fence {
	f, err := New(c, path, Options{})
	require.NoError(t, err)
	return f
}

// at is p's fence as seen by another client.
func (p *place) at(addr string) *Fence { return newFence(p.t, newConn(p.t, addr), p.fence.Path()) }

// get is the data of a node.
func (p *place) get(path string) string {
	p.t.Helper()
	v, _, err := p.conn.Get(path)
	require.NoError(p.t, err)
	return string(v)
}

// remove deletes a node with its children.
func (p *place) remove(path string) {
	p.t.Helper()
	children, _, err := p.conn.Children(path)
	require.NoError(p.t, err)
	for _, c := range children {
		require.NoError(p.t, p.conn.Delete(path+"/"+c, -1))
	}
	require.NoError(p.t, p.conn.Delete(path, -1))
}

func registers(t testing.TB, f *Fence, token lockport.Token) *Guard {
	t.Helper()
	g, err := f.Register(t.Context(), token)
	require.NoError(t, err)
	return g
}

// write writes value to a node through a guard.
func write(ctx context.Context, g *Guard, path, value string) error {
	_, err := g.Set(ctx, path, []byte(value), -1)
	return err
}

func newLocker(t testing.TB, addrs ...string) *lockport.Client {
	l, err := zookeeper.New(addrs, zookeeper.Options{TTL: 2 * time.Second}, lockport.Logger(nil))
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func oneLine(t testing.TB, err error) {
	t.Helper()
	fencetest.OneLine(t, "zkfence", err)
}
