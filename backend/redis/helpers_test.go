package redis

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net/url"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/redisscript"
)

// soon is far more than anything takes that follows at once, on a busy machine too.
const soon = 5 * time.Second

// newClient is a client with go-redis' own settings.
func newClient(t testing.TB, rawURL string) *goredis.Client {
	o, err := goredis.ParseURL(rawURL)
	require.NoError(t, err)
	c := goredis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// promptClient is a client that heeds the deadlines of contexts, as those that Open makes.
func promptClient(t testing.TB, rawURL string) *goredis.Client {
	o, err := goredis.ParseURL(rawURL)
	require.NoError(t, err)
	o.ContextTimeoutEnabled = true
	c := goredis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// node is a backend of its own, as good as another machine, and claims in its name.
type node struct {
	*Backend
	t    testing.TB
	name string
}

func newNode(t testing.TB, rawURL, name string, o Options) *node {
	return nodeOn(t, newClient(t, rawURL), name, o)
}

func nodeOn(t testing.TB, c goredis.UniversalClient, name string, o Options) *node {
	b, err := NewBackend(c, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return &node{Backend: b, t: t, name: name}
}

// request is a claim that is ready to wait.
func (n *node) request(name string) driver.Request {
	var id [16]byte
	_, _ = rand.Read(id[:])
	return driver.Request{Name: name, Owner: hex.EncodeToString(id[:]) + ":test/1/" + n.name, TTL: 10 * time.Second, Queue: true}
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

// waits claims, which must find the name held, and returns the error.
func (n *node) waits(req driver.Request) *driver.HeldError {
	n.t.Helper()
	_, err := n.try(req)
	var h *driver.HeldError
	require.ErrorAs(n.t, err, &h)
	return h
}

// renews renews lease.
func (n *node) renews(lease driver.Lease) (time.Time, error) {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	return driver.Renew(ctx, n.Backend, lease)
}

// frees releases lease.
func frees(t testing.TB, lease driver.Lease) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	require.NoError(t, lease.Release(ctx))
}

// do runs a command, past the backend.
func do(t testing.TB, s *servers.Redis, args ...any) any {
	t.Helper()
	reply, err := s.Do(context.Background(), args...)
	require.NoError(t, err)
	return reply
}

// keysOf are the keys that Redis has for name.
func keysOf(t testing.TB, s *servers.Redis, name string) []string {
	t.Helper()
	k := makeKeys(defaultLayout.Key(name))
	var found []string
	for _, key := range []string{k.lock, k.queue, k.older} {
		if do(t, s, "EXISTS", key) == int64(1) {
			found = append(found, key)
		}
	}
	return found
}

// isHeld reports whether err is ErrHeld.
func isHeld(err error) bool { return errors.Is(err, driver.ErrHeld) }

var defaultLayout = redisscript.Layout{Prefix: redisscript.DefaultPrefix}

// via is rawURL with another address.
func via(t *testing.T, rawURL, addr string) string {
	u, err := url.Parse(rawURL)
	require.NoError(t, err)
	u.Host = addr
	return u.String()
}

func clusterURL(c *servers.Cluster) string {
	return "redis+cluster://" + c.Addrs()[0] + "?" + url.Values{"addr": c.Addrs()[1:]}.Encode()
}

// makeKeys are the keys of the lock with the key lock, on one server.
func makeKeys(lock string) keys {
	return (&Backend{pipe: redisscript.NewPipe(nil, 0, 0)}).keysOf(lock)
}
