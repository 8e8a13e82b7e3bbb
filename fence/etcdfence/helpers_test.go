package etcdfence

import (
	"context"
	"crypto/rand"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/lockport/lockport"
	_ "github.com/lockport/lockport/backend/etcd"
	_ "github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/internal/lab/fencetest"
	"github.com/lockport/lockport/internal/lab/servers"
)

func connect(addr, user, password string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{addr}, Username: user, Password: password, Logger: zap.NewNop()})
}

func newClient(t testing.TB, addr, user, password string) *clientv3.Client {
	c, err := connect(addr, user, password)
	require.NoError(t, err)
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
	p := &place{t: t, server: s, client: newClient(t, s.Addr(), "", "")}
	name := rand.Text()
	p.data = "data/" + name
	p.fence = newFence(t, p.client, "fence/"+name)
	return p
}

func newFence(t testing.TB, c *clientv3.Client, key string) *Fence {
	f, err := New(c, key)
	require.NoError(t, err)
	return f
}

// get returns the value of the data key, or of another key.
func (p *place) get(key string) string {
	p.t.Helper()
	r, err := p.client.Get(p.t.Context(), key)
	require.NoError(p.t, err)
	if len(r.Kvs) == 0 {
		return ""
	}
	return string(r.Kvs[0].Value)
}

func (p *place) put(key, value string) {
	p.t.Helper()
	_, err := p.client.Put(p.t.Context(), key, value)
	require.NoError(p.t, err)
}

// write writes value to key through a guard.
func write(ctx context.Context, g *Guard, key, value string) error {
	_, err := g.Commit(ctx, clientv3.OpPut(key, value))
	return err
}

// open opens the numbers of an etcd, for fencetest.
func open(_ context.Context, addr string) (*fencetest.Store, error) {
	c, err := connect(addr, "", "")
	return &fencetest.Store{
		Register: func(ctx context.Context, name string, token lockport.Token, l *lockport.Lock) (fencetest.Write, error) {
			f, err := New(c, "fence/"+name)
			if err != nil {
				return nil, err
			}
			return fencetest.Register(ctx, f, token, l, func(ctx context.Context, g *Guard, value int64) error {
				return write(ctx, g, "data/"+name, strconv.FormatInt(value, 10))
			})
		},
		Bare: func(ctx context.Context, name string, value int64) error {
			_, err := c.Put(ctx, "data/"+name, strconv.FormatInt(value, 10))
			return err
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

func TestMain(m *testing.M) { os.Exit(fencetest.Main(m, open)) }

var registers = fencetest.Registers[*Guard]

const errs fencetest.Errors = "etcdfence"
