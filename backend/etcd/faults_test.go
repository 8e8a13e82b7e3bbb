package etcd

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/servers"
)

// onClusters runs a test on three nodes of either version.
func onClusters(t *testing.T, test func(t *testing.T, c *servers.EtcdCluster)) {
	t.Parallel()
	for name, o := range map[string]servers.EtcdOptions{"installed": {Tick: environment.EtcdTick}, "current": {Tick: environment.EtcdTick, Current: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, servers.NeedEtcdCluster(t, o))
		})
	}
}

// The TTL is longer than an election and some that nobody wins: those of two candidates at the same moment take a second or two each.
func TestHoldsSurviveTheLeadersDeath(t *testing.T) {
	onClusters(t, func(t *testing.T, c *servers.EtcdCluster) {
		a, b := newLocker(t, c.URL(), 9*time.Second), newLocker(t, c.URL(), 9*time.Second)
		held := holds(t, a, "x")
		waits := acquire(t, b, "x")
		queued(t, newClient(t, c.URL()), "x", 2)
		leader, err := c.Leader(t.Context())
		require.NoError(t, err)
		require.NoError(t, leader.Kill())
		_, err = c.Leader(t.Context())
		require.NoError(t, err)
		before, _ := held.Deadline()
		eventually(t, func() bool { now, _ := held.Deadline(); return now.After(before) }, "a renewal at the new leader")
		require.NoError(t, held.Err())
		select {
		case <-waits.done:
			require.FailNow(t, "granted to two", "%v", waits.err)
		default:
		}
		require.NoError(t, held.Release(t.Context()))
		next := waits.gets(t)
		first, _ := held.Token()
		second, _ := next.Token()
		require.Greater(t, second, first)
		require.NoError(t, next.Release(t.Context()))
	})
}

// A leader that was stopped for longer than the TTL has leases revoked when it goes on, healthy ones too: etcd's, and said on the page. What must
// hold is that nobody is granted the lock while its holder believes in it before the leader goes on, and that a holder whose lease was revoked is
// told.
func TestLeaderPaused(t *testing.T) {
	onClusters(t, func(t *testing.T, c *servers.EtcdCluster) {
		const locks = 20
		a, b := newLocker(t, c.URL(), 2*time.Second), newLocker(t, c.URL(), 2*time.Second)
		var held [locks]*lockport.Lock
		for i := range held {
			held[i] = holds(t, a, name(i))
		}
		leader, err := c.Leader(t.Context())
		require.NoError(t, err)
		require.NoError(t, leader.Freeze())
		// Which of the holds live on depends on whom the client asks: the stopped member is one of three that it may. Those that do not must have
		// ended before anybody else can have them.
		for end := time.Now().Add(4 * time.Second); time.Now().Before(end); {
			for i, l := range held {
				if next, err := tries(b, name(i)); err == nil {
					require.ErrorIs(t, l.Err(), lockport.ErrLost, "granted to two")
					require.NoError(t, next.Release(t.Context()))
				}
			}
		}
		require.NoError(t, leader.Thaw())
		for i, l := range held {
			next := acquire(t, b, name(i))
			select {
			case <-next.done:
				require.NoError(t, next.err)
				loses(t, l) // told, since it was removed by the server
				first, _ := l.Token()
				second, _ := next.lock.Token()
				require.Greater(t, second, first)
			case <-time.After(20 * time.Millisecond):
				_ = l.Release(t.Context())
				next.gets(t)
			}
			require.NoError(t, next.lock.Release(t.Context()))
		}
	})
}

func name(i int) string { return "lock-" + strconv.Itoa(i) }

func tries(c *lockport.Client, name string) (*lockport.Lock, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	return c.TryAcquire(ctx, name)
}

// Of many holders that are cut off, whether their connections break or fall silent, each is told before its deadline, and before the lock is granted to
// somebody else.
func TestPartitionedHoldersAreToldInTime(t *testing.T) {
	t.Parallel()
	s := servers.NeedEtcd(t, servers.EtcdOptions{})
	other := newLocker(t, s.URL(), time.Second)
	stall := stalls(t)
	for mode, fault := range map[string]func(*faultproxy.Proxy){"silent": (*faultproxy.Proxy).Freeze, "cut": (*faultproxy.Proxy).Cut} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			var all sync.WaitGroup
			for i := range 20 {
				proxy := newProxy(t, s.Addr())
				c := newLocker(t, via(t, s.URL(), proxy.Addr()), time.Second)
				t.Cleanup(proxy.Restore) // or closing takes its time
				l := holds(t, c, mode+name(i))
				next := acquire(t, other, l.Name())
				all.Go(func() {
					<-time.After(time.Duration(i) * 53 * time.Millisecond) // at any moment of the renewal's period
					fault(proxy)
					deadline, held := l.Deadline() // of what was confirmed before the fault; a renewal under way may move it
					var told time.Time
					for told.IsZero() { // without asking Err, which would find the loss by itself
						select {
						case <-l.Lost():
							told = time.Now()
						case <-time.After(5 * time.Millisecond):
							if now, ok := l.Deadline(); ok {
								deadline = now
							}
						}
					}
					<-next.done
					granted := time.Now()
					if held && told.After(deadline.Add(50*time.Millisecond+stall())) {
						t.Errorf("told %v after the deadline, on a machine that stalled for %v", told.Sub(deadline), stall())
					}
					if !told.Before(granted) || next.err != nil {
						t.Errorf("told %v after the grant to another: %v", told.Sub(granted), next.err)
					}
				})
			}
			all.Wait()
		})
	}
}

// stalls returns what tells by how much this machine, while the test runs, was late at most to run a goroutine that slept.
func stalls(t *testing.T) func() time.Duration {
	var worst atomic.Int64
	go func() {
		for at := time.Now(); t.Context().Err() == nil; at = time.Now() {
			<-time.After(time.Millisecond)
			if late := int64(time.Since(at) - time.Millisecond); late > worst.Load() { // nobody else stores
				worst.Store(late)
			}
		}
	}()
	return func() time.Duration { return time.Duration(worst.Load()) }
}

func TestLeaseRevokedUnderAHolder(t *testing.T) {
	t.Parallel()
	s := servers.NeedEtcd(t, servers.EtcdOptions{})
	etcd := newClient(t, s.URL())
	c := newLocker(t, s.URL(), 3*time.Second)
	x, y := holds(t, c, "x"), holds(t, c, "y")
	var key Key
	require.True(t, x.As(&key))
	_, err := etcd.Revoke(t.Context(), clientv3.LeaseID(key.Lease))
	require.NoError(t, err)
	loses(t, x)
	loses(t, y) // they share it
	require.ErrorIs(t, x.Release(t.Context()), lockport.ErrLost)
	require.NoError(t, holds(t, c, "x").Release(t.Context()), "the client goes on with another lease")
}

func TestLeaseRevokedBetweenTwoLocks(t *testing.T) {
	t.Parallel()
	s := servers.NeedEtcd(t, servers.EtcdOptions{})
	etcd := newClient(t, s.URL())
	n := newNode(t, s.URL(), "a")
	lease := n.takes(n.request("x"))
	frees(t, lease)
	_, err := etcd.Revoke(t.Context(), lease.(*claim).lease.id)
	require.NoError(t, err)
	frees(t, n.takes(n.request("x")))
}

// A waiter whose place in the queue is taken from it queues anew, whether its lease was revoked or its key deleted.
func TestPlaceLostWhileWaiting(t *testing.T) {
	t.Parallel()
	s := servers.NeedEtcd(t, servers.EtcdOptions{})
	etcd := newClient(t, s.URL())
	for what, take := range map[string]func(key string, lease int64) error{
		"revoked": func(_ string, lease int64) error {
			_, err := etcd.Revoke(context.Background(), clientv3.LeaseID(lease))
			return err
		},
		"deleted": func(key string, _ int64) error {
			_, err := etcd.Delete(context.Background(), key)
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			a, b := newLocker(t, s.URL(), 2*time.Second), newLocker(t, s.URL(), 2*time.Second)
			held := holds(t, a, what)
			waits := acquire(t, b, what)
			place := queued(t, etcd, what, 2)[1]
			require.NoError(t, take(string(place.Key), place.Lease))
			if what == "revoked" {
				eventually(t, func() bool {
					kvs := keysOf(t, etcd, what)
					return len(kvs) == 2 && kvs[1].CreateRevision > place.CreateRevision
				}, "a new place in the queue")
			}
			require.NoError(t, held.Release(t.Context()))
			require.NoError(t, waits.gets(t).Release(t.Context()))
		})
	}
}

// While the holder's watch is broken, its key is deleted and that is compacted away: the watch, opened again, cannot tell of it.
func TestRemovalThatWasCompactedAway(t *testing.T) {
	t.Parallel()
	s := servers.NeedEtcd(t, servers.EtcdOptions{})
	etcd := newClient(t, s.URL())
	proxy := newProxy(t, s.Addr())
	c := newLocker(t, via(t, s.URL(), proxy.Addr()), 3*time.Second)
	l := holds(t, c, "x")
	<-time.After(4 * holderPatience) // the holder's watch has begun
	proxy.Cut()
	kvs := keysOf(t, etcd, "x")
	r, err := etcd.Delete(t.Context(), string(kvs[0].Key))
	require.NoError(t, err)
	p, err := etcd.Put(t.Context(), "other", "")
	require.NoError(t, err)
	require.Greater(t, p.Header.Revision, r.Header.Revision)
	_, err = etcd.Compact(t.Context(), p.Header.Revision, clientv3.WithCompactPhysical())
	require.NoError(t, err)
	proxy.Restore()
	loses(t, l)
	require.NotErrorIs(t, l.Err(), lockport.ErrSilence)
}

// While the TTL is far from over, it is the watch that tells, also after it broke and was opened again.
func TestWatchTellsOfRemoval(t *testing.T) {
	t.Parallel()
	s := servers.NeedEtcd(t, servers.EtcdOptions{})
	etcd := newClient(t, s.URL())
	proxy := newProxy(t, s.Addr())
	c := newLocker(t, via(t, s.URL(), proxy.Addr()), time.Minute)
	for what, before := range map[string]func(){
		"at once": func() {},
		"watched": func() { <-time.After(4 * holderPatience) },
		"broken": func() {
			<-time.After(4 * holderPatience)
			proxy.KillConns()
		},
	} {
		l := holds(t, c, what)
		before()
		start := time.Now()
		_, err := etcd.Delete(t.Context(), string(keysOf(t, etcd, what)[0].Key))
		require.NoError(t, err)
		loses(t, l)
		t.Logf("%s: told after %v", what, time.Since(start))
		require.ErrorIs(t, l.Release(t.Context()), lockport.ErrLost)
	}
}

// A member that falls silent, while its connections stay, keeps the news of a removal. The renewals, which ask each member in turn, read the keys.
func TestSilentMemberIsNoticed(t *testing.T) {
	t.Parallel()
	c := servers.NeedEtcdCluster(t, servers.EtcdOptions{Tick: environment.EtcdTick})
	etcd := newClient(t, c.URL())
	var addrs []string
	var proxies []*faultproxy.Proxy
	for _, addr := range c.Addrs() {
		proxy := newProxy(t, addr)
		addrs, proxies = append(addrs, proxy.Addr()), append(proxies, proxy)
	}
	var held []*lockport.Lock
	for i := range 8 { // of so many one or the other is watched by the silent member
		held = append(held, holds(t, newLocker(t, via(t, c.URL(), addrs...), 3*time.Second), name(i)))
	}
	<-time.After(3 * holderPatience)
	proxies[0].Freeze()
	defer proxies[0].Restore()
	for _, l := range held {
		for _, kv := range keysOf(t, etcd, l.Name()) {
			_, err := etcd.Delete(t.Context(), string(kv.Key))
			require.NoError(t, err)
		}
	}
	for _, l := range held {
		select {
		case <-l.Lost():
		case <-time.After(2 * soon): // gRPC by itself would notice after 13 s
			require.FailNow(t, "the holder was not told")
		}
	}
}
