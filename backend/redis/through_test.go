package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/redishook"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/redisscript"
)

// Every request for a lock goes through the caller's client, so its hooks, tracer, limiter and metrics see it.
func TestHooksSeeEveryCommand(t *testing.T) {
	t.Parallel()
	for name, connect := range map[string]func(*testing.T) goredis.UniversalClient{
		"single": func(t *testing.T) goredis.UniversalClient { // a pool of one suffices
			return newClient(t, servers.SharedRedis(t).URL(), func(o *goredis.Options) { o.PoolSize = 1 })
		},
		"prompt":  func(t *testing.T) goredis.UniversalClient { return newClient(t, servers.SharedRedis(t).URL(), prompt) },
		"cluster": func(t *testing.T) goredis.UniversalClient { _, client := newCluster(t); return client },
		"sentinel": func(t *testing.T) goredis.UniversalClient {
			return opened(t, environment.Need(t, "redis-sentinel").URL()).pipe.Client
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := connect(t)
			a, b := nodeOn(t, client, "a", Options{}), nodeOn(t, client, "b", Options{})
			require.NoError(t, peer.ErrOf(a.Check(t.Context())))
			hook := new(redishook.Hook)
			client.AddHook(hook) // after New
			sees := func(what string, script *redisscript.Script) {
				t.Helper()
				require.Positive(t, hook.Take(script.Names), what)
			}
			a.Notified(a.Request(t.Name() + "another"))                                                    // the client is subscribed
			for _, req := range []func(string) driver.Request{a.Request, a.reading, a.permit, a.Request} { // the last on a warm connection
				lease := a.Takes(req(t.Name()))
				sees("acquire", redisscript.Acquire)
				peer.Extends(t, a, lease)
				sees("renew", redisscript.Renew)
				hook.Skip.Store(true)
				require.ErrorIs(t, b.Abandon(t.Context(), req(t.Name())), driver.ErrUnknown, "no answer is no success")
				b.Abandons(req(t.Name()))
				sees("abandon", redisscript.Abandon)
				peer.Shows(t, b, t.Name())
				sees("inspect", redisscript.Inspect)
				hook.Skip.Store(true)
				require.ErrorIs(t, a.Releases(lease), driver.ErrUnknown, "nor a loss")
				a.Frees(lease)
				sees("release", redisscript.Release)
			}
			again, released, err := a.Requeue(t.Context(), a.Takes(a.Request(t.Name())), a.Request(t.Name()))
			require.NoError(t, released)
			require.NoError(t, err)
			sees("release and wait again", redisscript.Requeue)
			require.NoError(t, b.Break(t.Context(), t.Name(), again.(*claim).Req.Owner))
			sees("break", redisscript.Break)
			leases, _ := a.many(200)
			sees("many at once", redisscript.Acquire)
			a.freesAll(leases)
			sees("many releases", redisscript.Release)

			require.NoError(t, a.Backend.Close())
			require.NoError(t, client.Ping(t.Context()).Err(), "the caller's client stays open")
			peer.Fails(t, a, a.Request(t.Name()), driver.ErrUnavailable)
		})
	}
}

// With a silent server every call returns soon after its context ends: a direct claim, and with go-redis' defaults, which ignore contexts.
func TestCallsReturnThoughTheServerIsSilent(t *testing.T) {
	t.Parallel()
	s := servers.NeedRedis(t, servers.RedisOptions{})
	for i, set := range []func(*goredis.Options){prompt, func(*goredis.Options) {}} {
		n, proxy := proxied(t, s, set)
		name := fmt.Sprint(t.Name(), i)
		lease, req := n.Takes(n.Request(name)), n.Request(name+" too")
		proxy.Freeze()
		for _, call := range []func(ctx context.Context) error{
			func(ctx context.Context) error { return n.Abandon(ctx, req) }, // before a claim without an answer ends direct calls
			func(ctx context.Context) error { _, err := n.TryAcquire(ctx, req); return err },
			func(ctx context.Context) error { _, err := driver.Renew(ctx, n.Backend, lease); return err },
			lease.Release,
		} {
			ctx, cancel := context.WithCancel(t.Context())
			peer.OnRequest(proxy, 1, cancel)
			start := time.Now()
			err := call(ctx)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, driver.ErrUnknown)
			require.Less(t, time.Since(start), time.Second, "go-redis' read timeout is 5 s")
		}
		proxy.Restore()
	}
}

// What blocks the client, such as a hook, delays one direct claim past its context's end, and not those that follow.
func TestBlockedClient(t *testing.T) {
	t.Parallel()
	n := nodeOn(t, newClient(t, servers.SharedRedis(t).URL(), prompt, func(o *goredis.Options) {
		o.OnConnect = func(context.Context, *goredis.Conn) error { time.Sleep(2 * soon); return goredis.ErrClosed }
	}), "a", Options{})
	for _, late := range []bool{true, false} {
		ctx := peer.Within(t, 200*time.Millisecond)
		require.Error(t, peer.ErrOf(n.TryAcquire(ctx, n.Request(t.Name()))))
		end, _ := ctx.Deadline()
		require.Equal(t, late, time.Since(end) > soon)
	}
}

// A demoted master refuses with READONLY. Each connection that does is dropped, and the next one finds the new master at the same address.
func TestDemotedMaster(t *testing.T) {
	t.Parallel()
	old := servers.NeedRedis(t, servers.RedisOptions{})
	master := servers.NeedReplica(t, old)
	proxy := peer.Proxy(t, old.Addr())
	var calls []func() error
	for i := range 6 {
		n := nodeOn(t, newClient(t, old.URL(), func(o *goredis.Options) { o.Addr, o.ContextTimeoutEnabled = proxy.Addr(), i < 3 }), "a", Options{})
		req, results := n.Request(fmt.Sprint("x", i)), make([]driver.Renewal, 2)
		both := []driver.Lease{n.Takes(req), n.Takes(n.Request(fmt.Sprint("y", i)))}
		calls = append(calls, []func() error{
			func() error { _, err := n.Try(n.Request(fmt.Sprint("z", i))); return err },
			func() error { n.RenewBatch(t.Context(), both, results); return cmp.Or(results[0].Err, results[1].Err) },
			func() error { return n.Abandon(t.Context(), req) },
		}[i%3])
	}
	peer.Until(t, func() bool { return do(t, master, "EXISTS", key("y5")) == int64(1) })
	require.NoError(t, errors.Join(master.Promote(t.Context()), old.Follow(t.Context(), master, master.Addr()), proxy.Retarget(master.Addr())))
	for _, call := range calls {
		peer.Until(t, func() bool { return call() == nil })
	}
}

// A demoted master may lag behind the new one, and lack a lock. It must not say that the lock is lost.
func TestDemotedMasterLags(t *testing.T) {
	s, n, _ := alone(t)
	for _, shared := range []bool{false, true} {
		req, results := n.Request("x"), make([]driver.Renewal, 2)
		req.Shared = shared
		lease, next := n.Takes(req), n.Request("x")
		do(t, s, "FLUSHALL")
		do(t, s, "REPLICAOF", "127.0.0.1", "1")
		n.RenewBatch(t.Context(), []driver.Lease{lease}, results[:1])
		n.RenewBatch(t.Context(), []driver.Lease{lease, lease}, results)
		for what, err := range map[string]error{
			"renew": results[0].Err, "renew both": results[1].Err, "break": n.Break(t.Context(), "x", req.Owner),
			"attach": peer.ErrOf(n.Attach(t.Context(), next, req.Owner, 1)), "release": lease.Release(t.Context()),
		} {
			require.ErrorIs(t, err, driver.ErrUnavailable, what)
		}
		do(t, s, "REPLICAOF", "NO", "ONE")
		require.ErrorIs(t, n.Break(t.Context(), "x", req.Owner), driver.ErrLost)
	}
}

// What a Limiter refuses is not sent and has no effect, and there is nothing to undo. A waiter keeps its place.
func TestLimiterRefuses(t *testing.T) {
	s, _, _, _ := shared(t)
	for i, set := range []func(*goredis.Options){prompt, func(*goredis.Options) {}} {
		limit, name := new(redishook.Limiter), fmt.Sprint(t.Name(), i)
		n := nodeOn(t, newClient(t, s.URL(), set, func(o *goredis.Options) { o.Limiter = limit }), "a", Options{})
		limit.Refuse.Store(true)
		req := n.Request(name)
		peer.Fails(t, n, req, driver.ErrUnavailable)
		_, _, void := n.claims.Find(req)
		require.True(t, void)
		n.Abandons(req)
		_, _, void = n.claims.Find(req)
		require.False(t, void, "the claim is not forgotten")
		do(t, s, "SET", key(name), "foreign")
		got, first := peer.Acquiring(t, peer.Client(t, n.Backend), name), []any(nil)
		peer.Until(t, func() bool { first = do(t, s, "ZRANGE", queueOf(name), 0, 0).([]any); return len(first) > 0 })
		limit.Refuse.Store(true)
		peer.Until(t, func() bool { return !limit.Refuse.Load() }) // the next poll
		do(t, s, "DEL", key(name))
		require.Equal(t, first[0], peer.Eventually(t, got).Owner())
	}
}

// A direct claim waits only shortly on its socket. What the network delivers later has no effect, while the claim waits or is held or afterwards.
func TestFirstRequestThatArrivesLate(t *testing.T) {
	s, other, _ := alone(t)
	for _, taken := range []bool{false, true} {
		n, proxy := proxied(t, s, prompt)
		name := fmt.Sprint(t.Name(), taken)
		lease := n.Takes(n.Request(name)) // warms up a connection
		proxy.Freeze()
		peer.OnRequest(proxy, 100, proxy.Restore) // after half a second
		n.Frees(lease)                            // a direct release waits for longer
		if taken {
			lease = other.Takes(other.Request(name))
		}
		proxy.Freeze()
		peer.OnRequest(proxy, 2, proxy.Restore)
		req := peer.Once(n.Request(name))
		start := time.Now()
		own, err := n.Try(req)
		require.Greater(t, time.Since(start), 80*time.Millisecond)
		if taken {
			require.ErrorIs(t, err, driver.ErrHeld)
			n.Frees(lease)
		} else {
			require.NoError(t, err)
			n.Frees(own)
		}
		keys, sent := n.keysOf(name), n.requests.Load()
		first := redisscript.Acquire.Call(keys, redisscript.Value(req.Owner), 10_000, "0", sent)
		require.Equal(t, redisscript.Reply{Value: []any{int64(redisscript.Abandoned)}}, n.pipe.Run(t.Context(), first), "a late delivery")
		require.Equal(t, int64(0), do(t, s, "EXISTS", keys[0]))
		require.InDelta(t, 55_000, do(t, s, "PTTL", keys[1]), 5_000)
		other.Frees(other.Takes(other.Request(name)))
	}
}
