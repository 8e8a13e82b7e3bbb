package etcdfence

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/etcd"
	"github.com/lockport/lockport/internal/lab/fencetest"
	"github.com/lockport/lockport/internal/lab/servers"
)

// soon is far more than anything takes that follows at once, on a busy machine too.
const soon = 10 * time.Second

func newClient(t testing.TB, addr string) *clientv3.Client {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// place is an etcd with a fence, and a key of data.
type place struct {
	t      testing.TB
	server *servers.Etcd
	client *clientv3.Client
	fence  *Fence
	data   string
}

func newPlace(t testing.TB, s *servers.Etcd) *place {
	p := &place{t: t, server: s, client: newClient(t, s.Addr())}
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

// at is p's fence as seen by another client.
func (p *place) at(addr string) *Fence { return newFence(p.t, newClient(p.t, addr), p.fence.Key()) }

// get is the data, or what else is at a key.
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

func (p *place) remove(key string) {
	p.t.Helper()
	_, err := p.client.Delete(p.t.Context(), key)
	require.NoError(p.t, err)
}

func registers(t testing.TB, f *Fence, token lockport.Token) *Guard {
	t.Helper()
	g, err := f.Register(t.Context(), token)
	require.NoError(t, err)
	return g
}

// write writes value to key through a guard.
func write(ctx context.Context, g *Guard, key, value string) error {
	_, err := g.Commit(ctx, clientv3.OpPut(key, value))
	return err
}

func newLocker(t testing.TB, c *clientv3.Client) *lockport.Client {
	l, err := etcd.New(c, etcd.Options{}, lockport.TTL(5*time.Second), lockport.Logger(nil))
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func stale(t testing.TB, err error, token, seen lockport.Token) {
	t.Helper()
	fencetest.Stale(t, "etcdfence", err, token, seen)
}

func oneLine(t testing.TB, err error) {
	t.Helper()
	fencetest.OneLine(t, "etcdfence", err)
}
