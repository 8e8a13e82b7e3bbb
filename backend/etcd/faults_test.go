package etcd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
)

func name(i int) string { return "lock-" + strconv.Itoa(i) }

// A waiter that loses its place, by a revoked lease or a deleted key, queues again.
func TestPlaceLostWhileWaiting(t *testing.T) {
	s, etcd, _ := alone(t)
	for _, what := range []string{"revoked", "deleted"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			a, b := newLocker(t, s.URL(), 2*time.Second), newLocker(t, s.URL(), 2*time.Second)
			held := peer.Holds(t, a, what)
			waits := peer.Acquiring(t, b, what)
			place := queued(t, etcd, what, 2)[1]
			if what == "deleted" {
				require.NoError(t, peer.ErrOf(etcd.Delete(t.Context(), string(place.Key))))
			} else {
				require.NoError(t, peer.ErrOf(etcd.Revoke(t.Context(), clientv3.LeaseID(place.Lease))))
				peer.Until(t, func() bool {
					kvs := keysOf(t, etcd, what)
					return len(kvs) == 2 && kvs[1].CreateRevision > place.CreateRevision
				})
			}
			require.NoError(t, held.Release(t.Context()))
			require.NoError(t, peer.Eventually(t, waits).Release(t.Context()))
		})
	}
}

// While the holder's watch, its own or the shared one, is broken, its key is deleted and the deletion compacted. The reopened watch cannot report it,
// and the first reads of the key fail. The server refuses to read many at once.
func TestRemovalThatWasCompactedAway(t *testing.T) {
	s, etcd, _ := alone(t, "--max-txn-ops=16")
	for _, locks := range []int{1, ownWatches + 1} {
		proxy := peer.Proxy(t, s.Addr())
		var fails atomic.Int64
		n := newNodeOn(t, newClient(t, proxy.Addr(), rejects(&fails, rpctypes.ErrGRPCRequestTooManyRequests)))
		c := peer.Client(t, n.Backend, lockport.TTL(time.Minute)) // no renewal checks the key
		var l *lockport.Lock
		for i := range locks {
			l = peer.Holds(t, c, fmt.Sprint(locks, "-", i))
		}
		<-time.After(4 * watchDelay) // the watch has begun
		proxy.Cut()
		fails.Store(3) // the reopened watch doubts twice
		r := peer.Must(etcd.Delete(t.Context(), string(keysOf(t, etcd, l.Name())[0].Key)))(t)
		p := peer.Must(etcd.Put(t.Context(), "other", ""))(t)
		require.Greater(t, p.Header.Revision, r.Header.Revision)
		require.NoError(t, peer.ErrOf(etcd.Compact(t.Context(), p.Header.Revision, clientv3.WithCompactPhysical())))
		proxy.Restore()
		peer.Eventually(t, l.Lost())
		require.NotErrorIs(t, l.Err(), lockport.ErrSilence)
	}
}

// A process with many locks has one shared watch. It reports losses and waiters to holders granted before it began, and to later ones.
func TestSharedWatch(t *testing.T) {
	s, etcd, n := alone(t)
	lost := make(chan int, 100)
	var leases []*claim
	takes := func(i int) {
		req := n.Request(name(i))
		req.TTL = time.Minute // no renewal checks the key
		req.Lost = func(error) { lost <- i }
		leases = append(leases, n.Takes(req).(*claim))
	}
	removes := func(i int) {
		t.Helper()
		require.NoError(t, peer.ErrOf(etcd.Delete(t.Context(), leases[i].key)))
		require.Equal(t, i, peer.Eventually(t, lost))
	}
	shares := func() bool { n.mu.Lock(); defer n.mu.Unlock(); return n.watches.shared != nil }
	for i := range ownWatches + 8 {
		takes(i)
	}
	removes(0)
	peer.Until(t, shares)
	removes(1)
	takes(len(leases))
	removes(len(leases) - 1)
	reader, contended := n.Request("shared"), make(chan struct{}, 100)
	reader.Shared, reader.Contended = true, func() { contended <- struct{}{} }
	leases = append(leases, n.Takes(reader).(*claim))
	writer := newNode(t, s.URL())
	writer.Waits(writer.Request("shared")) // perhaps before the reader has a watch
	peer.Eventually(t, contended)
	n.watches.happened(leases[2].key, true, int64(leases[2].grant.Token)-1) // the end of an earlier claim, reported late
	require.Empty(t, lost)
	other, waits := newNode(t, s.URL()), n.Request("waits")
	held := other.Takes(other.Request("waits"))
	n.Waits(waits)
	granted := make(chan error, 1)
	go func() { _, err := n.Wait(t.Context(), waits); granted <- err }()
	<-time.After(watchDelay)
	start := time.Now()
	n.Frees(held)
	require.NoError(t, <-granted)
	require.Less(t, time.Since(start), lookEvery/2)
	require.NoError(t, n.Abandon(t.Context(), waits))
	for i, c := range leases {
		if i == ownWatches {
			removes(i)
		}
		if err := n.Releases(c); !errors.Is(err, driver.ErrLost) {
			require.NoError(t, err)
		}
	}
	require.False(t, shares() || len(n.watches.names) > 0)
}

// etcd refuses a watch on a stream that was opened with a token it no longer knows. The watch moves to another stream. etcd 3.4 refuses such a login too.
func TestWatchAfterTheTokenHasEnded(t *testing.T) {
	t.Parallel()
	for _, current := range []bool{false, true} {
		s := servers.NeedEtcd(t, servers.EtcdOptions{Current: current, RootPassword: "root-secret"})
		n, other, told := newNode(t, s.URL()), newNode(t, s.URL()), make(chan string, 9)
		first, second := n.Request("first"), n.Request("second")
		first.Contended, second.Lost = func() { told <- "contended" }, func(error) { told <- "lost" }
		n.Takes(first)
		other.Waits(other.Request("first"))
		require.Equal(t, "contended", peer.Eventually(t, told), "the stream is open")
		require.NoError(t, s.Use(t.Context(), func(root *clientv3.Client) error {
			return peer.ErrOf(root.UserChangePassword(t.Context(), "root", "root-secret"))
		}))
		n.Takes(second)
		require.NoError(t, other.Break(t.Context(), "second", second.Owner))
		require.Equal(t, "lost", peer.Eventually(t, told))
	}
}

// A silent member with open connections costs no hold, and hides no removal: renewals ask the other members too, and read the keys.
func TestSilentMemberIsNoticed(t *testing.T) {
	t.Parallel()
	c := servers.NeedEtcdCluster(t, servers.EtcdOptions{Tick: environment.EtcdTick})
	etcd := newClient(t, c.Nodes[0].Addr())
	proxy := peer.Proxy(t, c.Nodes[0].Addr())
	var held []*lockport.Lock
	for i := range 16 {
		held = append(held, peer.Holds(t, newLocker(t, peer.Via(t, c.URL(), append(c.Addrs()[1:], proxy.Addr())...), 3*time.Second), name(i)))
	}
	<-time.After(3 * watchDelay)
	proxy.Freeze()
	defer proxy.Restore()
	<-time.After(soon)
	for _, l := range held[:8] { // enough that the silent member watches at least one
		require.NoError(t, peer.ErrOf(etcd.Delete(t.Context(), defaultLayout.prefixes(l.Name())[0], clientv3.WithPrefix())))
	}
	<-time.After(soon) // gRPC by itself would notice 13 s after the silence began
	for i, l := range held {
		require.Equal(t, i < 8, l.Err() != nil, "%s: %v", l.Name(), l.Err())
	}
}

// The end of a connection is not the end of the caller's context.
func TestLostConnectionIsNotTheCallersCancellation(t *testing.T) {
	s, _, _ := alone(t)
	proxy := peer.Proxy(t, s.Addr())
	n := newNodeOn(t, newClient(t, proxy.Addr()))
	peer.Shows(t, n, "a")
	proxy.BlackholeReplies()
	failed := make(chan error, 1)
	go func() { failed <- peer.ErrOf(n.Inspect(t.Context(), "a")) }()
	<-time.After(100 * time.Millisecond)
	proxy.Cut()
	err := peer.Eventually(t, failed)
	require.ErrorIs(t, err, driver.ErrUnavailable)
	require.NotErrorIs(t, err, context.Canceled)
}
