package etcd

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
)

// Clients of lockport and "etcdctl lock" increment a number in a file; no increment is lost.
func TestCounterWithEtcdctl(t *testing.T) {
	s, _, _ := alone(t)
	etcdctl := servers.NeedProgram(t, "etcdctl")
	file := filepath.Join(t.TempDir(), "counter")
	require.NoError(t, os.WriteFile(file, []byte("0"), 0o600))
	increment := []string{"sh", "-c", `n=$(cat "$0"); echo $((n + 1)) >"$0"`, file}
	const clients, counts, turns = 4, 40, 8
	var all sync.WaitGroup
	for range clients {
		c := newLocker(t, s.URL(), 2*time.Second)
		all.Go(func() {
			for range counts {
				assert.NoError(t, lockport.Do(t.Context(), c, "counter", func(context.Context, *lockport.Lock) error {
					return exec.Command(increment[0], increment[1:]...).Run()
				}))
			}
		})
		all.Go(func() {
			for range turns {
				cmd := exec.Command(etcdctl, append([]string{"--endpoints", s.Addr(), "lock", "--", defaultPrefix + "counter"}, increment...)...)
				cmd.Env = append(os.Environ(), "ETCDCTL_API=3")
				out, err := cmd.CombinedOutput()
				assert.NoError(t, err, "%s", out)
			}
		})
	}
	all.Wait()
	text := peer.Must(os.ReadFile(file))(t)
	require.Equal(t, fmt.Sprintln(clients*(counts+turns)), string(text), "increments were lost")
}

// A concurrency.Mutex and lockport's readers and writers share one queue, first in, first out.
func TestQueueWithMutex(t *testing.T) {
	s, etcd, n := alone(t)
	session := peer.Must(concurrency.NewSession(etcd, concurrency.WithTTL(5)))(t)
	m := concurrency.NewMutex(session, defaultPrefix+"x")
	a, b, c := newLocker(t, s.URL(), 2*time.Second), newLocker(t, s.URL(), 2*time.Second), newLocker(t, s.URL(), 2*time.Second)
	first, second := peer.Holds(t, a, "x", lockport.Shared()), peer.Holds(t, b, "x", lockport.Shared())
	require.ErrorIs(t, m.TryLock(t.Context()), concurrency.ErrLocked)

	locked := make(chan error, 1)
	go func() { locked <- m.Lock(context.Background()) }()
	queued(t, etcd, "x", 3)
	later := peer.Acquiring(t, c, "x", lockport.Shared())
	queued(t, etcd, "x", 4)
	require.NoError(t, first.Release(t.Context()))
	last := peer.Acquiring(t, a, "x")
	queued(t, etcd, "x", 4)
	notYet(t, locked, "a reader has it")
	status := peer.Shows(t, n, "x")
	require.Equal(t, []any{true, second.Owner(), 3, 0}, []any{status.Shared, status.Owner, status.Waiters, len(status.Others)})
	require.NoError(t, second.Release(t.Context()))
	require.NoError(t, peer.Eventually(t, locked))
	notYet(t, later, "a mutex has it")
	for _, mode := range [][]lockport.AcquireOption{nil, {lockport.Shared()}} {
		require.ErrorIs(t, peer.ErrOf(b.TryAcquire(t.Context(), "x", mode...)), lockport.ErrHeld)
	}
	require.NoError(t, m.Unlock(t.Context()))
	reader := peer.Eventually(t, later)
	notYet(t, last, "a reader has it")
	require.NoError(t, reader.Release(t.Context()))
	require.NoError(t, peer.Eventually(t, last).Release(t.Context()))
}

// Another number of permits is refused while some are in use. A claim that found none free, and could not leave the queue, is unknown.
func TestPermitsThatAreRefused(t *testing.T) {
	s, etcd, _ := alone(t)
	left := 0 // until one transaction is refused
	n := newNodeThrough(t, s, func(_ context.Context, _ *pb.TxnRequest, send, _ func() error) error {
		if left--; left == 0 {
			return rpctypes.ErrGRPCNoLeader
		}
		return send()
	})
	permit := func(number int) driver.Request {
		req := n.Request("x")
		req.Permits, req.Queue = number, number > 1
		return req
	}
	lease := n.Takes(permit(8))
	for _, number := range []int{1, 7, 9, 80, 1024} {
		peer.Fails(t, n, permit(number), driver.ErrInvalidOption, driver.ErrRefused)
	}
	n.Frees(lease)
	n.Frees(n.Takes(permit(80)))

	n.Takes(permit(1))
	left = 2
	req := permit(1)
	require.NotErrorIs(t, peer.Fails(t, n, req, driver.ErrUnknown), driver.ErrUnavailable)
	require.Len(t, keysOf(t, etcd, "x"), 2)
	n.Abandons(req)
	require.Len(t, keysOf(t, etcd, "x"), 1)
	n.Waits(peer.Permit(n.Request("x"), 1))
	require.Len(t, keysOf(t, etcd, "x"), 2, "it keeps its place")
}

func TestWireGolden(t *testing.T) {
	_, etcd, n := alone(t)
	for name, prefix := range map[string]string{
		"nightly-report": "lockport/nightly-report/",
		"a/b":            "lockport/a%2Fb/",
		"a%2Fb":          "lockport/a%252Fb/",
		"%":              "lockport/%25/",
		"größe Ω":        "lockport/größe Ω/",
	} {
		require.Equal(t, prefix, defaultLayout.prefixes(name)[0])
		back, suffix, ok := defaultLayout.name(prefix + "694d71ddacfda227-1")
		require.Equal(t, []any{name, "694d71ddacfda227-1", true}, []any{back, suffix, ok})
	}
	const owner = "00112233445566778899aabbccddeeff:host/7/label/0"
	require.Equal(t, "lockport/x/694d71ddacfda227", keyOf(defaultLayout.prefixes("x")[0], 0x694d71ddacfda227, 0))
	require.Equal(t, "lockport/x/694d71ddacfda227-2", keyOf(defaultLayout.prefixes("x")[0], 0x694d71ddacfda227, 2))
	require.Equal(t, "lp1:"+owner, valueOf(owner))
	require.Equal(t, "lockport//00112233445566778899aabbccddeeff", defaultLayout.tombstone(owner))
	_, _, isName := defaultLayout.name(defaultLayout.tombstone(owner))
	require.False(t, isName)
	require.Equal(t, [...]string{"x/", "/permits/x/"}, layout{}.prefixes("x"))
	for key, want := range map[string]driver.Status{
		"lockport/a%2Fb/694d71ddacfda227":            {Name: "a/b"},
		"lockport/a%2Fb/shared-694d71ddacfda227":     {Name: "a/b", Shared: true},
		"lockport//permits/a%2Fb/8-694d71ddacfda227": {Name: "a/b", Permits: 8},
	} {
		want.Held, want.Owner, want.Token = true, owner, 7
		require.Equal(t, want, defaultLayout.claimant(entry{key: key, value: valueOf(owner), created: 7}))
		req := driver.Request{Name: want.Name, Shared: want.Shared, Permits: want.Permits}
		require.Equal(t, key, keyOf(defaultLayout.claimPrefix(req)+modeTag(req), 0x694d71ddacfda227, 0))
	}

	// The same keys on the server.
	req := n.Request("a/b")
	lease := n.Takes(req)
	r := peer.Must(etcd.Get(t.Context(), "", clientv3.WithPrefix()))(t)
	require.Len(t, r.Kvs, 1)
	var key Key
	require.True(t, lease.(driver.LeaseAs).As(&key))
	require.Equal(t, []string{fmt.Sprintf("lockport/a%%2Fb/%x", key.Lease), "lp1:" + req.Owner}, []string{string(r.Kvs[0].Key), string(r.Kvs[0].Value)})
	require.Equal(t, Key{Key: string(r.Kvs[0].Key), CreateRevision: r.Kvs[0].CreateRevision, Lease: r.Kvs[0].Lease}, key)
	require.Equal(t, uint64(key.CreateRevision), lease.Grant().Token)
}
