package mysql

import (
	"context"
	"database/sql"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
)

// BenchmarkHandOff is the time from the release by one client to the grant of another that waits in the server's queue, alternating with the floor, which is
// the same by bare GET_LOCK and RELEASE_LOCK on two pinned connections.
func BenchmarkHandOff(b *testing.B) {
	for _, tokens := range []bool{false, true} {
		b.Run("tokens="+strconv.FormatBool(tokens), func(b *testing.B) {
			x := newBench(b, false)
			admin := adminOf(b, x.m)
			var ours [2]*lockport.Client
			var bare [2]*sql.Conn
			for i := range ours {
				var err error
				ours[i], err = lockport.New(newBackend(b, x.m, Options{NoTokens: !tokens}), lockport.Logger(nil))
				require.NoError(b, err)
				b.Cleanup(func() { require.NoError(b, ours[i].Close()) })
				bare[i], err = x.pool.Conn(b.Context())
				require.NoError(b, err)
				b.Cleanup(func() { _ = bare[i].Close() })
			}
			blocked := func() {
				require.Eventually(b, func() bool { return blockedIn(b, admin) != 0 }, within, 200*time.Microsecond)
			}
			var floors, owns []float64
			for b.Loop() {
				floors = append(floors, bareHandOff(b, bare, blocked))
				owns = append(owns, ourHandOff(b, ours, blocked))
			}
			b.ReportMetric(median(floors), "floor-ns")
			b.ReportMetric(median(owns), "handoff-ns")
		})
	}
}

func bareHandOff(b *testing.B, bare [2]*sql.Conn, blocked func()) float64 {
	ctx := context.Background()
	var ok int
	require.NoError(b, bare[0].QueryRowContext(ctx, "SELECT GET_LOCK('bare',0)").Scan(&ok))
	got := make(chan time.Time, 1)
	go func() {
		var ok int
		_ = bare[1].QueryRowContext(ctx, "SELECT GET_LOCK('bare',100)").Scan(&ok)
		got <- time.Now()
	}()
	blocked()
	start := time.Now()
	require.NoError(b, bare[0].QueryRowContext(ctx, "SELECT RELEASE_LOCK('bare')").Scan(&ok))
	took := (<-got).Sub(start)
	require.NoError(b, bare[1].QueryRowContext(ctx, "SELECT RELEASE_LOCK('bare')").Scan(&ok))
	return float64(took.Nanoseconds())
}

func ourHandOff(b *testing.B, ours [2]*lockport.Client, blocked func()) float64 {
	ctx := context.Background()
	l, err := ours[0].Acquire(ctx, "name")
	require.NoError(b, err)
	got := make(chan time.Time, 1)
	next := make(chan *lockport.Lock, 1)
	go func() {
		l, _ := ours[1].Acquire(ctx, "name")
		got <- time.Now()
		next <- l
	}()
	blocked()
	start := time.Now()
	require.NoError(b, l.Release(ctx))
	took := (<-got).Sub(start)
	require.NoError(b, (<-next).Release(ctx))
	return float64(took.Nanoseconds())
}

// BenchmarkHeld is what 10,000 held locks take: memory of this process, and connections.
func BenchmarkHeld(b *testing.B) {
	x := newBench(b, false)
	const n = 10_000
	for b.Loop() {
		c, err := lockport.New(newBackend(b, x.m, Options{TTL: time.Minute}), lockport.Logger(nil), lockport.TTL(time.Minute))
		require.NoError(b, err)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		locks := make([]*lockport.Lock, n)
		run(b, func(g int) error {
			for i := g; i < n; i += 64 {
				var err error
				if locks[i], err = c.Acquire(context.Background(), "held-"+strconv.Itoa(i)); err != nil {
					return err
				}
			}
			return nil
		}, 64, 64)
		runtime.GC()
		runtime.ReadMemStats(&after)
		var conns int
		require.NoError(b, adminOf(b, x.m).QueryRowContext(b.Context(),
			"SELECT COUNT(DISTINCT IS_USED_LOCK(id)) FROM lockport_fence WHERE name LIKE 'held-%'").Scan(&conns))
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "B/lock")
		b.ReportMetric(float64(conns), "connections")
		runtime.KeepAlive(locks)
		require.NoError(b, c.Close())
	}
}
