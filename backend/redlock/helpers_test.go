package redlock

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/redisscript"
)

// soon is far more than anything takes that follows at once, on a busy machine too.
const soon = 5 * time.Second

// peer is a backend of its own, as good as another machine, and claims in its name.
type peer struct {
	*Backend
	t    testing.TB
	name string
}

func newPeer(t testing.TB, rawURL, name string) *peer {
	b, err := openURL(t.Context(), rawURL)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return &peer{Backend: b.(*Backend), t: t, name: name}
}

var defaultLayout = redisscript.Layout{Prefix: redisscript.DefaultPrefix}

// nodes are servers behind a proxy each.
type nodes struct {
	servers []*servers.Redis
	proxies []*faultproxy.Proxy
	dead    map[int]bool
}

func newNodes(t testing.TB, n int, o servers.RedisOptions) *nodes {
	x := &nodes{dead: make(map[int]bool)}
	for range n {
		s := servers.NeedRedis(t, o)
		proxy, err := faultproxy.New(s.Addr())
		require.NoError(t, err)
		t.Cleanup(func() { _ = proxy.Close() })
		x.servers, x.proxies = append(x.servers, s), append(x.proxies, proxy)
	}
	return x
}

// url leads past the proxies.
func (x *nodes) url() string {
	var addrs []string
	for _, s := range x.servers {
		addrs = append(addrs, s.Addr())
	}
	return "redlock://" + strings.Join(addrs, ",")
}

// proxied is the URL through the proxies.
func (x *nodes) proxied() string {
	var addrs []string
	for _, p := range x.proxies {
		addrs = append(addrs, p.Addr())
	}
	return "redlock://" + strings.Join(addrs, ",")
}

func (x *nodes) kill(t testing.TB, which ...int) {
	for _, i := range which {
		x.dead[i] = true
		require.NoError(t, x.servers[i].Kill())
	}
}

// leftovers are the keys that a node has for names that start with prefix.
func leftovers(ctx context.Context, s *servers.Redis, prefix string) ([]string, error) {
	reply, err := s.Do(ctx, "KEYS", "*"+redisscript.GlobEscape(defaultLayout.Key(prefix))+"*")
	if err != nil {
		return nil, err
	}
	var left []string
	keys, _ := reply.([]any)
	for _, k := range keys {
		key := fmt.Sprint(k)
		if _, queue := redisscript.SideOf(key, queueKey); queue {
			// An abandoned claim may be remembered for its minute.
			if n, err := s.Do(ctx, "ZCOUNT", key, "-inf", "(4000000000000000"); err != nil || n == int64(0) {
				continue
			}
		}
		left = append(left, key)
	}
	return left, nil
}

// request is a claim that is ready to wait.
func (p *peer) request(name string) driver.Request {
	var id [16]byte
	_, _ = rand.Read(id[:])
	return driver.Request{Name: name, Owner: hex.EncodeToString(id[:]) + ":test/1/" + p.name, TTL: 10 * time.Second, Queue: true}
}

func (p *peer) try(req driver.Request) (driver.Lease, error) {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	return p.TryAcquire(ctx, req)
}

// takes claims, which must succeed.
func (p *peer) takes(req driver.Request) driver.Lease {
	p.t.Helper()
	lease, err := p.try(req)
	require.NoError(p.t, err)
	return lease
}

// waits claims, which must find the name held, and returns the error.
func (p *peer) waits(req driver.Request) *driver.HeldError {
	p.t.Helper()
	_, err := p.try(req)
	var h *driver.HeldError
	require.ErrorAs(p.t, err, &h)
	return h
}

func (p *peer) frees(lease driver.Lease) {
	p.t.Helper()
	require.NoError(p.t, p.releases(lease))
}

func (p *peer) releases(lease driver.Lease) error {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	return lease.Release(ctx)
}

func (p *peer) renews(lease driver.Lease) (time.Time, error) {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	return driver.Renew(ctx, p.Backend, lease)
}

func (p *peer) abandons(req driver.Request) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	require.NoError(p.t, p.Abandon(ctx, req))
}

// do runs a command, past the backend.
func do(t testing.TB, s *servers.Redis, args ...any) any {
	t.Helper()
	reply, err := s.Do(context.Background(), args...)
	require.NoError(t, err)
	return reply
}

// having counts the nodes, of those that live, that have the key.
func (x *nodes) having(t testing.TB, key string) int {
	n := 0
	for i, s := range x.servers {
		if !x.dead[i] && do(t, s, "EXISTS", key) == int64(1) {
			n++
		}
	}
	return n
}

// empty waits until no living node keeps anything of name but abandoned claims.
func (x *nodes) empty(t testing.TB, name string) {
	t.Helper()
	var all []string
	require.Eventually(t, func() bool {
		all = nil
		for i, s := range x.servers {
			if !x.dead[i] {
				left, err := leftovers(context.Background(), s, name)
				require.NoError(t, err)
				all = append(all, left...)
			}
		}
		return len(all) == 0
	}, soon, 10*time.Millisecond, "%v", &all)
}

func (x *nodes) restartEmpty(t testing.TB, which ...int) {
	for _, i := range which {
		require.NoError(t, x.servers[i].Kill())
		require.NoError(t, x.servers[i].Restart(context.Background()))
		require.Equal(t, int64(0), do(t, x.servers[i], "DBSIZE"))
		x.dead[i] = false
	}
}

func (x *nodes) freeze(t testing.TB, which ...int) {
	for _, i := range which {
		require.NoError(t, x.servers[i].Freeze())
		x.dead[i] = true
	}
	t.Cleanup(func() { // whatever the test came to
		for _, i := range which {
			_ = x.servers[i].Thaw()
		}
	})
}

func (x *nodes) thaw(t testing.TB, which ...int) {
	for _, i := range which {
		require.NoError(t, x.servers[i].Thaw())
		x.dead[i] = false
	}
}

// clients are clients of the servers with go-redis' own settings.
func (x *nodes) clients(t testing.TB) []*goredis.Client {
	var all []*goredis.Client
	for _, s := range x.servers {
		o, err := goredis.ParseURL(s.URL())
		require.NoError(t, err)
		c := goredis.NewClient(o)
		t.Cleanup(func() { _ = c.Close() })
		all = append(all, c)
	}
	return all
}

func plainNodes(t testing.TB, n int) *nodes {
	return newNodes(t, n, servers.RedisOptions{})
}

func key(name string) string { return fmt.Sprint("lockport:", name) }

// asksNode calls a script on one node and waits for its answer.
func (p *peer) asksNode(i int, script *redisscript.Script, keys []string, argv ...string) {
	require.NoError(p.t, p.answer(i, script, keys, argv...))
}

// answer is what becomes of a call of a script on one node.
func (p *peer) answer(i int, script *redisscript.Script, keys []string, argv ...string) error {
	args := make([]any, len(argv))
	for n, a := range argv {
		args[n] = a
	}
	return p.nodes[i].run(context.Background(), soon, script, keys, args...).Err
}

// reaches asks node i for something that changes nothing.
func (p *peer) reaches(i int) error { return p.answer(i, redisscript.Waiting, []string{"nobody"}) }

// catchesUp waits until node i has answered all that it was asked so far.
func (p *peer) catchesUp(i int) { require.NoError(p.t, p.reaches(i)) }

// knowsAway waits until p has noticed that dead nodes are dead, so that a request to them certainly has no effect.
func (p *peer) knowsAway(which ...int) {
	for _, i := range which {
		require.Eventually(p.t, func() bool { return errors.Is(p.reaches(i), driver.ErrUnavailable) }, soon, time.Millisecond)
	}
}
