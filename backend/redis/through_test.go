package redis

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/redisscript"
)

// seeing is a hook of the caller's client, as tracers are: it notes every command.
type seeing struct {
	mu   sync.Mutex
	seen []string
}

func (h *seeing) note(cmds ...goredis.Cmder) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, cmd := range cmds {
		h.seen = append(h.seen, fmt.Sprint(cmd.Args()...))
	}
}

// DialHook implements goredis.Hook, as do the others.
func (h *seeing) DialHook(next goredis.DialHook) goredis.DialHook { return next }

func (h *seeing) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		h.note(cmd)
		return next(ctx, cmd)
	}
}

func (h *seeing) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error {
		h.note(cmds...)
		return next(ctx, cmds)
	}
}

// takes returns how many of the commands seen call one of scripts, and forgets them all.
func (h *seeing) takes(scripts ...*redisscript.Script) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range scripts {
		for _, text := range h.seen {
			if s.Names([]byte(text)) {
				n++
			}
		}
	}
	h.seen = nil
	return n
}

// Every request on behalf of a lock goes through the caller's client, whose hooks see it; so would its tracer, its limiter and its metrics.
func TestHooksSeeEveryCommand(t *testing.T) {
	t.Parallel()
	single := func(t *testing.T) goredis.UniversalClient { return newClient(t, servers.SharedRedis(t).URL()) }
	prompt := func(t *testing.T) goredis.UniversalClient { return promptClient(t, servers.SharedRedis(t).URL()) }
	sentinel := func(t *testing.T) goredis.UniversalClient {
		s := servers.NeedSentinel(t, servers.SentinelOptions{})
		b, err := openURL(t.Context(), s.URL())
		require.NoError(t, err)
		t.Cleanup(func() { _ = b.Close() })
		return b.(*Backend).client
	}
	cluster := func(t *testing.T) goredis.UniversalClient {
		c := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: servers.NeedCluster(t, servers.RedisOptions{}).Addrs()})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	for name, connect := range map[string]func(*testing.T) goredis.UniversalClient{"single": single, "prompt": prompt, "sentinel": sentinel, "cluster": cluster} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := connect(t)
			a, b := nodeOn(t, client, "a", Options{}), nodeOn(t, client, "b", Options{})
			hook := new(seeing)
			client.AddHook(hook) // after New
			sees := func(what string, scripts ...*redisscript.Script) {
				t.Helper()
				require.Positive(t, hook.takes(scripts...), what)
			}
			for range 3 { // also once the connection is ready
				lease := a.takes(a.request(t.Name()))
				sees("acquire", redisscript.Acquire, redisscript.Again)
				_, err := a.renews(lease)
				require.NoError(t, err)
				sees("renew", redisscript.Renew)
				req := b.request(t.Name())
				b.waits(req)
				sees("wait", redisscript.Acquire, redisscript.Again)
				b.abandons(req)
				sees("abandon", redisscript.Abandon)
				again, released, err := a.Requeue(t.Context(), lease, a.request(t.Name()))
				require.NoError(t, released)
				require.NoError(t, err)
				sees("release and wait again", redisscript.Requeue)
				_, err = b.Inspect(t.Context(), t.Name())
				require.NoError(t, err)
				sees("inspect", redisscript.Inspect)
				frees(t, again)
				sees("release", redisscript.Release)
			}
			leases, _ := a.many(200)
			require.Positive(t, hook.takes(redisscript.Acquire, redisscript.Again), "many at once")
			a.freesAll(leases)
			sees("many releases", redisscript.Release)
			lease := a.takes(a.request(t.Name()))
			require.NoError(t, b.Break(t.Context(), t.Name(), lease.(*claim).Req.Owner))
			sees("break", redisscript.Break)
		})
	}
}

// On a server that says nothing every call of lockport returns soon after its context ends, also with go-redis' own settings, which ignore contexts.
func TestCallsReturnThoughTheServerIsSilent(t *testing.T) {
	t.Parallel()
	s := servers.SharedRedis(t)
	for i, connect := range []func(testing.TB, string) *goredis.Client{newClient, promptClient} {
		name := fmt.Sprint(t.Name(), i)
		_, proxy := proxied(t, s, Options{})
		n := nodeOn(t, connect(t, via(t, s.URL(), proxy.Addr())), "a", Options{})
		client, err := lockport.New(n.Backend)
		require.NoError(t, err)
		lock, err := client.Acquire(t.Context(), name)
		require.NoError(t, err)
		lease, waiting := n.takes(n.request(name+"2")), n.request(name+"2")
		n.waits(waiting)
		for _, call := range []func(ctx context.Context) error{
			func(ctx context.Context) error { _, err := client.Acquire(ctx, name+"3"); return err },
			func(ctx context.Context) error { _, err := client.TryAcquire(ctx, name+"4"); return err },
			func(ctx context.Context) error { _, err := client.Inspect(ctx, name); return err },
			func(ctx context.Context) error { return n.Abandon(ctx, waiting) },
			func(ctx context.Context) error { _, err := driver.Renew(ctx, n.Backend, lease); return err },
			func(ctx context.Context) error { return lease.Release(ctx) },
		} {
			proxy.Freeze()
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			start := time.Now()
			require.ErrorIs(t, call(ctx), context.DeadlineExceeded)
			require.Less(t, time.Since(start), 3*time.Second, "go-redis' read timeout is 5 s")
			cancel()
			proxy.Restore()
			require.Eventually(t, func() bool {
				_, err := n.Inspect(t.Context(), name)
				return err == nil
			}, soon, time.Millisecond)
		}
		require.NoError(t, lock.Release(t.Context()))
		require.NoError(t, client.Close())
	}
}

// A claim that waits for its socket itself, which go-redis reads whatever happens to the context, returns soon when it is cancelled.
func TestLoneClaimIsCancelled(t *testing.T) {
	t.Parallel()
	s := servers.SharedRedis(t)
	_, proxy := proxied(t, s, Options{})
	n := nodeOn(t, promptClient(t, via(t, s.URL(), proxy.Addr())), "a", Options{})
	frees(t, n.takes(n.request(t.Name()))) // a connection is ready
	proxy.Freeze()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	start := time.Now()
	_, err := n.TryAcquire(ctx, n.request(t.Name()))
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, driver.ErrUnknown)
	require.Less(t, time.Since(start), time.Second)
	proxy.Restore()
}

// One connection is enough, beside the one that listens, which is none of the pool's.
func TestPoolOfOne(t *testing.T) {
	t.Parallel()
	s := servers.SharedRedis(t)
	o, err := goredis.ParseURL(s.URL())
	require.NoError(t, err)
	o.PoolSize = 1
	server := goredis.NewClient(o)
	defer func() { _ = server.Close() }()
	a, b := nodeOn(t, server, "a", Options{}), newNode(t, s.URL(), "b", Options{})
	lease := b.takes(b.request(t.Name()))
	req := a.request(t.Name())
	a.waits(req)
	woken := a.notified(req)
	leases, results := a.many(500)
	a.RenewBatch(t.Context(), leases, results)
	for _, r := range results {
		require.NoError(t, r.Err)
	}
	frees(t, lease)
	eventually(t, woken)
	frees(t, a.takes(req))
	a.freesAll(leases)
}

// A caller that is alone waits for its socket only shortly. What the network delivers later has no effect: neither while the claim waits or is held, nor after.
func TestFirstRequestThatArrivesLate(t *testing.T) {
	t.Parallel()
	s := servers.NeedRedis(t, servers.RedisOptions{})
	for _, taken := range []bool{false, true} {
		_, proxy := proxied(t, s, Options{})
		n := nodeOn(t, promptClient(t, via(t, s.URL(), proxy.Addr())), "prompt", Options{})
		other := newNode(t, s.URL(), "other", Options{})
		name := fmt.Sprint(t.Name(), taken)
		frees(t, n.takes(n.request(name))) // a connection is ready
		var lease driver.Lease
		if taken {
			lease = other.takes(other.request(name))
		}
		proxy.Freeze() // connections that there are
		time.AfterFunc(200*time.Millisecond, proxy.Restore)
		req := n.request(name)
		req.Queue = false
		start := time.Now()
		own, err := n.try(req)
		require.Greater(t, time.Since(start), 80*time.Millisecond)
		if taken {
			require.ErrorIs(t, err, driver.ErrHeld)
			frees(t, lease)
		} else {
			require.NoError(t, err)
			frees(t, own)
		}
		require.Equal(t, int64(0), do(t, s, "EXISTS", defaultLayout.Key(name)))
		keys, sent := n.keysOf(defaultLayout.Key(name)), n.requests.Load()
		first := redisscript.Acquire.Call(keys.all(), redisscript.Value(req.Owner), 10_000, "0", sent)
		r := n.pipe.Run(t.Context(), redisscript.Acquire, first, false) // as the network may deliver it
		require.NoError(t, r.Err)
		require.Equal(t, []any{int64(abandoned)}, r.Value)
		require.Equal(t, int64(0), do(t, s, "EXISTS", keys.lock))
		require.LessOrEqual(t, do(t, s, "PTTL", keys.queue).(int64), late.Milliseconds())
		lease = other.takes(other.request(name))
		frees(t, lease)
	}
}
