package redis

import (
	"context"
	"fmt"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/redishook"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/redisclaims"
	"github.com/lockport/lockport/internal/redisscript"
)

// Every request for a lock goes through the caller's client, so its hooks, tracer, limiter and metrics see it.
func TestHooksSeeEveryCommand(t *testing.T) {
	t.Parallel()
	for name, connect := range map[string]func(*testing.T) goredis.UniversalClient{
		"single": func(t *testing.T) goredis.UniversalClient { // a pool of one suffices
			return newClient(t, servers.SharedRedis(t).URL(), func(o *goredis.Options) { o.PoolSize = 1 })
		},
		"prompt": func(t *testing.T) goredis.UniversalClient { return newClient(t, servers.SharedRedis(t).URL(), prompt) },
		"cluster": func(t *testing.T) goredis.UniversalClient {
			_, client := newCluster(t)
			return client
		},
		"sentinel": func(t *testing.T) goredis.UniversalClient {
			return opened(t, environment.Need(t, "redis-sentinel").URL()).client
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := connect(t)
			a, b := nodeOn(t, client, "a", Options{}), nodeOn(t, client, "b", Options{})
			_, err := a.Check(t.Context())
			require.NoError(t, err)
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
				b.Abandons(req(t.Name()))
				sees("abandon", redisscript.Abandon)
				peer.Shows(t, b, t.Name())
				sees("inspect", redisscript.Inspect)
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
		})
	}
}

// With a silent server every call returns soon after its context ends, with go-redis' defaults, which ignore contexts. The
// suite shows it for clients that honour contexts.
func TestCallsReturnThoughTheServerIsSilent(t *testing.T) {
	s, _, _, _ := shared(t)
	n, proxy := proxied(t, s)
	name := t.Name()
	client, err := lockport.New(n.Backend)
	require.NoError(t, err)
	lock, err := client.Acquire(t.Context(), name)
	require.NoError(t, err)
	lease, waiting := n.Takes(n.Request(name+"2")), n.Request(name+"2")
	n.Waits(waiting)
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

// A direct claim returns soon when it is cancelled, although go-redis keeps reading from its socket.
func TestLoneClaimIsCancelled(t *testing.T) {
	s, _, _, _ := shared(t)
	n, proxy := proxied(t, s, prompt)
	n.Frees(n.Takes(n.Request(t.Name()))) // warms up a connection
	proxy.Freeze()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	start := time.Now()
	_, err := n.TryAcquire(ctx, n.Request(t.Name()))
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, driver.ErrUnknown)
	require.Less(t, time.Since(start), time.Second)
	proxy.Restore()
}

// A direct claim waits only shortly on its socket. What the network delivers later has no effect, while the claim waits or is held or afterwards.
func TestFirstRequestThatArrivesLate(t *testing.T) {
	t.Parallel()
	s := servers.NeedRedis(t, servers.RedisOptions{})
	for _, taken := range []bool{false, true} {
		n, proxy := proxied(t, s, prompt)
		other := newNode(t, s.URL(), "other", Options{})
		name := fmt.Sprint(t.Name(), taken)
		n.Frees(n.Takes(n.Request(name))) // warms up a connection
		var lease driver.Lease
		if taken {
			lease = other.Takes(other.Request(name))
		}
		proxy.Freeze() // existing connections
		time.AfterFunc(200*time.Millisecond, proxy.Restore)
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
		r := n.pipe.Run(t.Context(), first) // a late delivery
		require.NoError(t, r.Err)
		require.Equal(t, []any{int64(redisscript.Abandoned)}, r.Value)
		require.Equal(t, int64(0), do(t, s, "EXISTS", keys[0]))
		require.LessOrEqual(t, do(t, s, "PTTL", keys[1]).(int64), redisclaims.TombstoneTTL.Milliseconds())
		lease = other.Takes(other.Request(name))
		n.Frees(lease)
	}
}
