package etcd

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

// settled is a pause before each release, the same for all: who has just been busy is faster.
const settled = 20 * time.Millisecond

// BenchmarkHandOff is from a release to the grant of another client that waits, beside two floors (a delete, and what another client does
// that watches the key: it claims it in a transaction; or it reads what is before its own) and beside concurrency.Mutex, alternating in one run.
func BenchmarkHandOff(b *testing.B) {
	s := servers.NeedEtcd(b, servers.EtcdOptions{})
	ctx := context.Background()
	x, y := newNode(b, s.URL(), "x"), newNode(b, s.URL(), "y")
	xc, yc := newClient(b, s.URL()), newClient(b, s.URL())
	long := func(req driver.Request) driver.Request { req.TTL = time.Minute; return req }
	watch := yc.Watch(ctx, "floor/holder", clientv3.WithFilterPut())
	floor := func(then func()) time.Duration {
		_, err := xc.Put(ctx, "floor/holder", "")
		require.NoError(b, err)
		_, err = yc.Put(ctx, "floor/waiter", "")
		require.NoError(b, err)
		got := make(chan time.Time)
		go func() {
			<-watch
			then()
			got <- time.Now()
		}()
		<-time.After(settled)
		start := time.Now()
		_, err = xc.Delete(ctx, "floor/holder")
		require.NoError(b, err)
		return (<-got).Sub(start)
	}
	claims := func() time.Duration {
		return floor(func() {
			_, _ = yc.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision("floor/holder"), "=", 0)).Then(clientv3.OpPut("floor/waiter", "")).Commit()
		})
	}
	reads := func() time.Duration { return floor(func() { _, _ = yc.Get(ctx, "floor/waiter") }) }
	ours := func() time.Duration {
		lease := x.takes(long(x.request("ours")))
		got := make(chan time.Time)
		var next driver.Lease
		go func() {
			next, _ = y.Wait(ctx, long(y.request("ours")))
			got <- time.Now()
		}()
		eventually(b, func() bool { return y.watches.open() > 0 }, "the waiter's watch")
		<-time.After(settled)
		start := time.Now()
		frees(b, lease)
		took := (<-got).Sub(start)
		frees(b, next)
		eventually(b, func() bool { return y.watches.open() == 0 }, "the end of the waiter's watch")
		return took
	}
	xs, err := concurrency.NewSession(xc)
	require.NoError(b, err)
	ys, err := concurrency.NewSession(yc)
	require.NoError(b, err)
	mutex := func() time.Duration {
		a, w := concurrency.NewMutex(xs, "mutex"), concurrency.NewMutex(ys, "mutex")
		require.NoError(b, a.Lock(ctx))
		got := make(chan time.Time)
		go func() {
			_ = w.Lock(ctx)
			got <- time.Now()
		}()
		<-time.After(settled) // there is nothing to see of its watch
		start := time.Now()
		require.NoError(b, a.Unlock(ctx))
		took := (<-got).Sub(start)
		require.NoError(b, w.Unlock(ctx))
		return took
	}
	var took [4][]float64
	for b.Loop() {
		for i, f := range []func() time.Duration{claims, reads, ours, mutex} {
			took[i] = append(took[i], float64(f().Nanoseconds()))
		}
	}
	b.ReportMetric(median(took[0])/1000, "floor-µs")
	b.ReportMetric(ratio(took[2], took[0]), "ours/floor")
	b.ReportMetric(ratio(took[2], took[1]), "ours/read")
	b.ReportMetric(ratio(took[3], took[2]), "mutex/ours")
	slices.Sort(took[2])
	b.ReportMetric(took[2][len(took[2])*99/100]/1000, "p99-µs")
}
