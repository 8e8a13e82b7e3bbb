package etcdfence

import (
	"context"
	"crypto/rand"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	_ "github.com/lockport/lockport/backend/etcd"
	_ "github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/internal/lab/fencetest"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
)

func connect(addr, user, password string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{addr}, Username: user, Password: password, Logger: zap.NewNop()})
}

func newClient(t testing.TB, addr, user, password string) *clientv3.Client {
	c := peer.Must(connect(addr, user, password))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// place is an etcd with a fence and a data key.
type place struct {
	t      testing.TB
	server *servers.Etcd
	client *clientv3.Client
	fence  *Fence
	data   string
}

func newPlace(t testing.TB, s *servers.Etcd) *place {
	c, name := newClient(t, s.Addr(), "", ""), rand.Text()
	return &place{t, s, c, peer.Must(New(c, "fence/"+name))(t), "data/" + name}
}

// get returns the value of the data key, or of another key.
func (p *place) get(key string) string {
	p.t.Helper()
	r := peer.Must(p.client.Get(p.t.Context(), key))(p.t)
	if len(r.Kvs) == 0 {
		return ""
	}
	return string(r.Kvs[0].Value)
}

func (p *place) put(key, value string) {
	p.t.Helper()
	require.NoError(p.t, peer.ErrOf(p.client.Put(p.t.Context(), key, value)))
}

// write writes value to key through a guard.
func write(ctx context.Context, g *Guard, key, value string) error {
	return peer.ErrOf(g.Commit(ctx, clientv3.OpPut(key, value)))
}

// open opens the numbers of an etcd, for fencetest.
func open(_ context.Context, addr string) (*fencetest.Store, error) {
	c, err := connect(addr, "", "")
	return &fencetest.Store{
		Register: fencetest.Register(
			func(name string) (*Fence, error) { return New(c, "fence/"+name) },
			func(ctx context.Context, g *Guard, name string, value int64) error {
				return write(ctx, g, "data/"+name, strconv.FormatInt(value, 10))
			}),
		Bare: func(ctx context.Context, name string, value int64) error {
			return peer.ErrOf(c.Put(ctx, "data/"+name, strconv.FormatInt(value, 10)))
		},
		Get: func(ctx context.Context, name string) (int64, error) {
			r, err := c.Get(ctx, "data/"+name)
			if err != nil || len(r.Kvs) == 0 {
				return 0, err
			}
			return strconv.ParseInt(string(r.Kvs[0].Value), 10, 64)
		},
		Close: func() { _ = c.Close() },
	}, err
}

func TestMain(m *testing.M) { fencetest.Main(m, open) }

var registers = fencetest.Registers[*Guard]

const errs fencetest.Errors = "etcdfence"
