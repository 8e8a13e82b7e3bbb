package zkfence

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	_ "github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/backend/zookeeper"
	"github.com/lockport/lockport/internal/lab/fencetest"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
)

func connect(session time.Duration, addrs ...string) (*zk.Conn, error) {
	c, _, err := zk.Connect(addrs, session, zk.WithLogger(new(zookeeper.Log)))
	return c, err
}

func newConn(t testing.TB, addrs ...string) *zk.Conn {
	c := peer.Must(connect(10*time.Second, addrs...))(t)
	t.Cleanup(c.Close)
	return c
}

// place is a ZooKeeper with a fence and a data node.
type place struct {
	t      testing.TB
	server *servers.ZooKeeper
	conn   *zk.Conn
	fence  *Fence
	data   string
}

func newPlace(t testing.TB) *place {
	s := servers.SharedZooKeeper(t)
	c, name := newConn(t, s.Addr()), rand.Text()
	require.NoError(t, peer.ErrOf(c.Create("/"+name, nil, 0, zk.WorldACL(zk.PermAll))))
	return &place{t, s, c, peer.Must(New(c, "/fences/of/"+name, Options{}))(t), "/" + name}
}

// get returns the data of a node.
func (p *place) get(path string) string {
	p.t.Helper()
	v, _, err := p.conn.Get(path)
	require.NoError(p.t, err)
	return string(v)
}

// tokens returns the names of a fence's nodes.
func (p *place) tokens(path string) []string {
	p.t.Helper()
	children, _, err := p.conn.Children(path)
	require.NoError(p.t, err)
	return children
}

// write writes value to a node through a guard.
func write(ctx context.Context, g *Guard, path, value string) error {
	return peer.ErrOf(g.Set(ctx, path, []byte(value), -1))
}

// open opens the numbers of a ZooKeeper, for fencetest. Its session outlives the time for which a process is stopped, so that a late write arrives.
func open(_ context.Context, addr string) (*fencetest.Store, error) {
	c, err := connect(30*time.Second, addr)
	path := func(name string) string { return "/data of " + name }
	create := func(name string) error {
		if err := peer.ErrOf(c.Create(path(name), []byte("0"), 0, zk.WorldACL(zk.PermAll))); !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
		return nil
	}
	register := fencetest.Register(
		func(name string) (*Fence, error) { return New(c, "/fences/of/"+name, Options{}) },
		func(ctx context.Context, g *Guard, name string, value int64) error {
			return write(ctx, g, path(name), strconv.FormatInt(value, 10))
		})
	return &fencetest.Store{
		Register: func(ctx context.Context, name string, token lockport.Token, l *lockport.Lock) (w fencetest.Write, err error) {
			if w, err = register(ctx, name, token, l); err == nil {
				err = create(name)
			}
			return w, err
		},
		Bare: func(_ context.Context, name string, value int64) error {
			return peer.ErrOf(c.Set(path(name), strconv.AppendInt(nil, value, 10), -1))
		},
		Get: func(_ context.Context, name string) (int64, error) {
			if err := errors.Join(create(name), peer.ErrOf(c.Sync(path(name)))); err != nil {
				return 0, err
			}
			data, _, err := c.Get(path(name))
			if err != nil {
				return 0, err
			}
			return strconv.ParseInt(string(data), 10, 64)
		},
		Close: c.Close,
	}, err
}

func TestMain(m *testing.M) { fencetest.Main(m, open) }

var registers = fencetest.Registers[*Guard]

const errs fencetest.Errors = "zkfence"
