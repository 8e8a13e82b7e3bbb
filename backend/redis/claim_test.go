package redis

import (
	"context"
	"fmt"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/redisscript"
)

// proxied is a node that reaches s through a proxy, on a client with go-redis' own settings: contexts unheeded, three retries.
func proxied(t *testing.T, s *servers.Redis, o Options) (*node, *faultproxy.Proxy) {
	proxy, err := faultproxy.New(s.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = proxy.Close() })
	return newNode(t, via(t, s.URL(), proxy.Addr()), "proxied", o), proxy
}

// A claim that arrives after it was abandoned is refused: the network may deliver late what it was given before.
func TestAbandonedClaimIsRefusedWhenItArrives(t *testing.T) {
	t.Parallel()
	s := servers.SharedRedis(t)
	direct := newNode(t, s.URL(), "a", Options{})
	n, proxy := proxied(t, s, Options{})
	frees(t, n.takes(n.request(t.Name()+"warm-up")))
	req := n.request(t.Name())
	proxy.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := n.TryAcquire(ctx, req)
	require.ErrorIs(t, err, driver.ErrUnknown)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, direct.Abandon(t.Context(), req), "by a way that is not frozen")
	before := n.asked(s)
	proxy.Restore()
	require.Eventually(t, func() bool { return n.asked(s) > before }, soon, time.Millisecond, "the claim arrives")
	require.Equal(t, int64(0), do(t, s, "EXISTS", defaultLayout.Key(req.Name)))
	_, err = direct.try(req)
	require.ErrorIs(t, err, driver.ErrRefused)
	next := direct.request(t.Name())
	frees(t, direct.takes(next))
	queue := makeKeys(defaultLayout.Key(req.Name)).queue
	require.LessOrEqual(t, do(t, s, "PTTL", queue).(int64), late.Milliseconds(), "remembered for a minute")
}

// asked counts the scripts that the server has run.
func (n *node) asked(s *servers.Redis) string {
	info, err := s.Info(n.t.Context(), "commandstats")
	require.NoError(n.t, err)
	return info["cmdstat_evalsha"]
}

// An answered claim leaves nothing when it is abandoned.
func TestAbandonLeavesNothing(t *testing.T) {
	t.Parallel()
	s := servers.SharedRedis(t)
	a, b := newNode(t, s.URL(), "a", Options{}), newNode(t, s.URL(), "b", Options{})
	held, waiting := a.request(t.Name()), b.request(t.Name())
	a.takes(held)
	b.waits(waiting)
	b.abandons(waiting)
	a.abandons(held)
	require.Empty(t, keysOf(t, s, t.Name()))
	require.Zero(t, a.claims.Len())
	require.Zero(t, b.claims.Len())
	try := b.request(t.Name())
	try.Queue = false
	a.takes(held) // a new claim of the same owner, since nothing was on its way
	b.waits(try)
	require.Zero(t, b.claims.Len(), "a single attempt is forgotten at once")
}

func TestUnknownReleaseIsMadeOnce(t *testing.T) {
	t.Parallel()
	s := servers.SharedRedis(t)
	n, proxy := proxied(t, s, Options{})
	frees(t, n.takes(n.request(t.Name()))) // the server knows the scripts
	lease := n.takes(n.request(t.Name()))
	dropped := proxy.DropReply(redisscript.Release.Names)
	require.ErrorIs(t, lease.Release(t.Context()), driver.ErrUnknown)
	<-dropped
	other := newNode(t, s.URL(), "other", Options{})
	next := other.takes(other.request(t.Name()))
	require.ErrorIs(t, lease.Release(t.Context()), driver.ErrLost, "the first attempt has freed it, as the client concludes")
	frees(t, next)
}

func TestReleaseThatCameTooLateIsALoss(t *testing.T) {
	t.Parallel()
	s := servers.SharedRedis(t)
	n := newNode(t, s.URL(), "a", Options{})
	lease := n.takes(n.request(t.Name()))
	do(t, s, "DEL", defaultLayout.Key(t.Name()))
	err := lease.Release(t.Context())
	require.ErrorIs(t, err, driver.ErrLost)
	require.ErrorContains(t, err, "gone")
	lease = n.takes(n.request(t.Name()))
	do(t, s, "SET", defaultLayout.Key(t.Name()), "somebody")
	_, err = n.renews(lease)
	require.ErrorIs(t, err, driver.ErrLost)
	require.ErrorContains(t, err, "somebody")
	do(t, s, "DEL", defaultLayout.Key(t.Name()))
}

func TestNobodyIsSentTwice(t *testing.T) {
	t.Parallel()
	s := servers.NeedRedis(t, servers.RedisOptions{})
	n, proxy := proxied(t, s, Options{})
	frees(t, n.takes(n.request(t.Name())))
	do(t, s, "CONFIG", "RESETSTAT")
	dropped := proxy.DropReply(redisscript.Acquire.Names)
	req := n.request(t.Name())
	_, err := n.try(req)
	require.ErrorIs(t, err, driver.ErrUnknown)
	<-dropped
	require.Contains(t, n.asked(s), "calls=1,", "go-redis would have tried again")
	n.abandons(req)
}

func TestScriptsAreLoadedAgain(t *testing.T) {
	t.Parallel()
	s := servers.NeedRedis(t, servers.RedisOptions{})
	n := newNode(t, s.URL(), "a", Options{})
	for range 2 {
		do(t, s, "SCRIPT", "FLUSH")
		lease := n.takes(n.request(t.Name()))
		do(t, s, "SCRIPT", "FLUSH")
		_, err := n.renews(lease)
		require.NoError(t, err)
		do(t, s, "SCRIPT", "FLUSH")
		frees(t, lease)
	}
}

func TestTenThousandRenewalsAreAFewRoundTrips(t *testing.T) {
	s := servers.NeedRedis(t, servers.RedisOptions{})
	n := newNode(t, s.URL(), "a", Options{})
	const locks = 10_000
	leases, results := n.many(locks)
	n.RenewBatch(t.Context(), leases[:1], results[:1]) // the server knows the script
	do(t, s, "CONFIG", "RESETSTAT")
	n.RenewBatch(t.Context(), leases, results)
	require.Contains(t, n.asked(s), "calls=20,", "in one pipeline")
	for _, r := range results {
		require.NoError(t, r.Err)
		require.Greater(t, time.Until(r.Until), 8*time.Second)
	}
	n.freesAll(leases)
}

// many claims so many names at once.
func (n *node) many(locks int) ([]driver.Lease, []driver.Renewal) {
	leases := make([]driver.Lease, locks)
	done := make(chan struct{})
	for part := range 50 {
		go func() {
			for i := part; i < locks; i += 50 {
				leases[i], _ = n.try(n.request(fmt.Sprint(n.t.Name(), i)))
			}
			done <- struct{}{}
		}()
	}
	for range 50 {
		<-done
	}
	for _, l := range leases {
		require.NotNil(n.t, l)
	}
	return leases, make([]driver.Renewal, locks)
}

func (n *node) freesAll(leases []driver.Lease) {
	done := make(chan error)
	for part := range 50 {
		go func() {
			var failed error
			for i := part; i < len(leases); i += 50 {
				if err := leases[i].Release(n.t.Context()); err != nil {
					failed = err
				}
			}
			done <- failed
		}()
	}
	for range 50 {
		require.NoError(n.t, <-done)
	}
}

func TestReplicasMustAcknowledge(t *testing.T) {
	t.Parallel()
	master := servers.NeedRedis(t, servers.RedisOptions{})
	replica := servers.NeedReplica(t, master)
	n := newNode(t, master.URL(), "a", Options{Replicas: 1, WaitTimeout: 300 * time.Millisecond})
	lease := n.takes(n.request(t.Name()))
	require.Equal(t, do(t, master, "GET", defaultLayout.Key(t.Name())), do(t, replica.Redis, "GET", defaultLayout.Key(t.Name())))
	until, err := n.renews(lease)
	require.NoError(t, err)
	require.True(t, until.After(lease.Grant().Until))

	replica.Link.Freeze()
	_, err = n.renews(lease)
	require.ErrorIs(t, err, driver.ErrUnknown, "nothing is promised that a fail-over would not keep")
	frees(t, lease)
	_, err = n.try(n.request(t.Name()))
	require.ErrorIs(t, err, driver.ErrUnavailable)
	require.ErrorContains(t, err, "only 0 of 1 replicas")
	require.Equal(t, int64(0), do(t, master, "EXISTS", defaultLayout.Key(t.Name())), "given back")
	replica.Link.Restore()
	require.Eventually(t, func() bool {
		lease, err := n.try(n.request(t.Name()))
		if err == nil {
			frees(t, lease)
		}
		return err == nil
	}, soon, 10*time.Millisecond)
}

func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	s := servers.NeedSentinel(t, servers.SentinelOptions{})
	b, err := openURL(t.Context(), s.URL())
	require.NoError(t, err)
	defer func() { _ = b.Close() }()
	n := &node{Backend: b.(*Backend), t: t, name: "a"}
	_, err = n.Check(t.Context())
	require.NoError(t, err)
	lease := n.takes(n.request(t.Name()))
	killed, err := s.KillMaster(t.Context())
	require.NoError(t, err)
	_, err = s.WaitFailover(t.Context(), killed)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		next, err := n.try(n.request(t.Name() + "2"))
		return err == nil && next.Grant().Token > lease.Grant().Token
	}, 20*time.Second, 50*time.Millisecond)
	do(t, s.Nodes[1], "DEL", defaultLayout.Key(t.Name())) // as if it had not been copied in time
	require.Eventually(t, func() bool {
		next, err := n.try(n.request(t.Name()))
		return err == nil && next.Grant().Token > lease.Grant().Token
	}, soon, 50*time.Millisecond, "tokens rise over a fail-over")
}

func TestClusterSpreadsNames(t *testing.T) {
	t.Parallel()
	c := servers.NeedCluster(t, servers.RedisOptions{})
	b, err := openURL(t.Context(), clusterURL(c))
	require.NoError(t, err)
	defer func() { _ = b.Close() }()
	n := &node{Backend: b.(*Backend), t: t, name: "a"}
	notices, err := n.Check(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, notices)
	leases, results := n.many(3000)
	for _, node := range c.Nodes {
		require.Greater(t, do(t, node, "DBSIZE").(int64), int64(1000), "each node has its share of locks and tokens")
	}
	n.RenewBatch(t.Context(), leases, results)
	for _, r := range results {
		require.NoError(t, r.Err)
	}
	found, err := n.List(t.Context(), t.Name()+"12")
	require.NoError(t, err)
	require.Len(t, found, 111)
	n.freesAll(leases)

	// A slot moves to another node.
	name := t.Name() + "moved"
	key := defaultLayout.Key(name)
	lease := n.takes(n.request(name))
	frees(t, lease)
	slot, err := c.Nodes[0].Do(t.Context(), "CLUSTER", "KEYSLOT", key)
	require.NoError(t, err)
	moveSlot(t, c, slot.(int64))
	frees(t, n.takes(n.request(name)))
}

// moveSlot gives an empty slot to another node.
func moveSlot(t *testing.T, c *servers.Cluster, slot int64) {
	from := int(slot) * len(c.Nodes) / 16384
	to := (from + 1) % len(c.Nodes)
	for _, key := range do(t, c.Nodes[from], "CLUSTER", "GETKEYSINSLOT", slot, 1000).([]any) {
		do(t, c.Nodes[from], "DEL", key)
	}
	id := do(t, c.Nodes[to], "CLUSTER", "MYID")
	for _, node := range []*servers.Redis{c.Nodes[to], c.Nodes[from], c.Nodes[(to+1)%len(c.Nodes)]} {
		do(t, node, "CLUSTER", "SETSLOT", slot, "NODE", id)
	}
}

func TestCallerClientStaysOpen(t *testing.T) {
	t.Parallel()
	s := servers.SharedRedis(t)
	client := newClient(t, s.URL())
	n := nodeOn(t, client, "a", Options{})
	frees(t, n.takes(n.request(t.Name())))
	require.NoError(t, n.Backend.Close())
	require.NoError(t, client.Ping(t.Context()).Err())
	_, err := n.try(n.request(t.Name()))
	require.ErrorIs(t, err, driver.ErrUnavailable)

	b, err := openURL(t.Context(), s.URL())
	require.NoError(t, err)
	require.NoError(t, b.Close())
	require.ErrorIs(t, b.(*Backend).client.Ping(t.Context()).Err(), goredis.ErrClosed)
}
