package zkfence

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	_ "github.com/lockport/lockport/backend/memory"
	_ "github.com/lockport/lockport/backend/zookeeper"
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

// open opens the values of a ZooKeeper, for fencetest. Its session outlives the time for which a process is stopped: a late write must arrive.
func open(addr string) (fencetest.Values[*Guard], error) {
	c, _, err := zk.Connect([]string{addr}, 30*time.Second, zk.WithLogger(silent{}), zk.WithLogInfo(false), zk.WithDialer(servers.DialZooKeeper))
	path := func(name string) string { return "/data of " + name }
	create := func(name string) error {
		_, err := c.Create(path(name), nil, 0, zk.WorldACL(zk.PermAll))
		if errors.Is(err, zk.ErrNodeExists) {
			return nil
		}
		return err
	}
	return fencetest.Values[*Guard]{
		Fence: func(name string) (fencetest.Fence[*Guard], error) {
			if err := create(name); err != nil {
				return nil, err
			}
			return New(c, "/fences/of/"+name, Options{})
		},
		Write: func(ctx context.Context, g *Guard, name, value string) error { return write(ctx, g, path(name), value) },
		Bare: func(_ context.Context, name, value string) error {
			if err := create(name); err != nil {
				return err
			}
			_, err := c.Set(path(name), []byte(value), -1)
			return err
		},
		Get: func(_ context.Context, name string) (string, error) {
			if _, err := c.Sync(path(name)); err != nil {
				return "", err
			}
			data, _, err := c.Get(path(name))
			if errors.Is(err, zk.ErrNoNode) {
				err = nil
			}
			return string(data), err
		},
		Close: func() error { c.Close(); return nil },
	}, err
}

func openLocks(ctx context.Context, addr string, ttl time.Duration) (*lockport.Client, error) {
	return lockport.Open(ctx, "zookeeper://"+addr+"?ttl="+ttl.String(), lockport.Logger(nil))
}

func TestMain(m *testing.M) { os.Exit(fencetest.Main(m, fencetest.Kinds(open, openLocks))) }

// Holders that were stopped until their locks had expired go on, and write.
func TestLateHolders(t *testing.T) {
	s := servers.SharedZooKeeper(t)
	fencetest.Late(t, fencetest.Run{Store: s.Addr(), Locks: s.Addr(), LateTTL: 500 * time.Millisecond}, fencetest.Bare, fencetest.ByToken, fencetest.ByLock)
}

func oneLine(t testing.TB, err error) {
	t.Helper()
	fencetest.OneLine(t, "zkfence", err)
}
