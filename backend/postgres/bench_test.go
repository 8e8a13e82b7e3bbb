package postgres

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

// cycle is one acquisition and its release by goroutine g.
type cycle func(ctx context.Context, g int) error

// bench is a client of each kind, with connections of its own: which processor the server's process of a connection runs on makes more of
// a difference than anything that is measured, so several sets of them are.
type bench struct {
	conn    *pgx.Conn
	pool    *pgxpool.Pool
	backend *Backend
	locker  *lockport.Client
}

func newBench(b *testing.B, p *servers.Postgres) *bench {
	x := &bench{conn: admin(b, p.URL()), backend: backendAt(b, p.URL()), locker: clientAt(b, p.URL())}
	config, err := pgxpool.ParseConfig(p.URL())
	require.NoError(b, err)
	config.MaxConns, config.MinConns = 16, 16
	x.pool, err = pgxpool.NewWithConfig(b.Context(), config)
	require.NoError(b, err)
	b.Cleanup(x.pool.Close)
	return x
}

// querier is a connection.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// lockUnlock is the floor: the two statements that a lock needs, prepared, without a token, without telling anybody.
func lockUnlock(ctx context.Context, conn querier, g int) error {
	var got, freed bool
	err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, g).Scan(&got)
	if err == nil {
		err = conn.QueryRow(ctx, `SELECT pg_advisory_unlock($1)`, g).Scan(&freed)
	}
	if err == nil && !(got && freed) {
		err = fmt.Errorf("floor: got %v, freed %v", got, freed)
	}
	return err
}

// bare is the floor on one connection, which one goroutine can use.
func (x *bench) bare(ctx context.Context, g int) error { return lockUnlock(ctx, x.conn, g) }

// pooled is the floor on a pool of 16 connections.
func (x *bench) pooled(ctx context.Context, g int) error {
	conn, err := x.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return lockUnlock(ctx, conn, g)
}

// driver is the driver.
func (x *bench) driver(ctx context.Context, g int) error {
	lease, err := x.backend.TryAcquire(ctx, driver.Request{Name: "d" + strconv.Itoa(g), Owner: fmt.Sprintf("%032x:bench/1/bench/0", g+1), TTL: lockport.DefaultTTL})
	if err != nil {
		return err
	}
	return lease.Release(ctx)
}

// lockport is what a user sees.
func (x *bench) lockport(ctx context.Context, g int) error {
	l, err := x.locker.Acquire(ctx, "l"+strconv.Itoa(g))
	if err != nil {
		return err
	}
	return l.Release(ctx)
}

// timed makes n cycles on goroutines, each on a name of its own, and returns the nanoseconds that one took.
func timed(b *testing.B, c cycle, goroutines, n int) float64 {
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	start := time.Now()
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for range (n + goroutines - 1 - g) / goroutines {
				if err := c(ctx, g); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return float64(time.Since(start).Nanoseconds()) / float64(n)
}

// BenchmarkCycle is an uncontended Acquire and Release, alternating in short turns with the bare statements in one run, on many connections of each
// kind. The ratios are of medians over the turns. The floor of one goroutine is one connection, that of 64 a pool of 16.
func BenchmarkCycle(b *testing.B) {
	p := servers.NeedPostgres(b, servers.PostgresOptions{})
	for _, goroutines := range []int{1, 64} {
		b.Run(strconv.Itoa(goroutines), func(b *testing.B) {
			var took [3][]float64
			turn := 50 * goroutines
			for left := b.N; left > 0; left -= 20 * turn {
				b.StopTimer()
				x := newBench(b, p)
				all := [3]cycle{x.lockport, x.driver, x.bare}
				if goroutines > 1 {
					all[2] = x.pooled
				}
				for _, c := range all {
					timed(b, c, goroutines, 2*goroutines)
				}
				for t := 0; t < 20 && left > t*turn; t++ {
					for i, c := range all {
						if i == 0 {
							b.StartTimer()
						}
						took[i] = append(took[i], timed(b, c, goroutines, min(turn, left-t*turn)))
						b.StopTimer()
					}
				}
				x.pool.Close()
				_ = x.conn.Close(context.Background())
			}
			floor := median(took[2])
			b.ReportMetric(floor, "floor-ns/op")
			b.ReportMetric(median(took[1])/floor, "driver/floor")
			b.ReportMetric(median(took[0])/floor, "lockport/floor")
		})
	}
}

// BenchmarkHandOff is from a release to the grant of another client that waits: on a connection of its own, and woken by notification.
func BenchmarkHandOff(b *testing.B) {
	p := servers.NeedPostgres(b, servers.PostgresOptions{})
	for name, busy := range map[string]int{"queue": 0, "notified": 1} {
		b.Run(name, func(b *testing.B) {
			clients := [2]*lockport.Client{}
			for i := range clients {
				clients[i] = clientAt(b, with(b, p.URL(), "blockers", "1"), lockport.WithoutHandOff())
			}
			ctx, cancel := context.WithCancel(b.Context())
			for i := range busy { // each client's only blocker waits for this
				conn := admin(b, p.URL())
				key, _ := layout{prefix: defaultPrefix}.key(fmt.Sprint("busy", i))
				execute(b, conn, `SELECT pg_advisory_lock($1)`, key)
				for _, c := range clients {
					go func() { _, _ = c.Acquire(ctx, fmt.Sprint("busy", i)) }()
				}
				require.Eventually(b, func() bool {
					return query[int64](b, conn, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted`) == int64(len(clients))
				}, soon, time.Millisecond)
			}
			var took []float64
			l, err := clients[0].Acquire(ctx, "x")
			require.NoError(b, err)
			watch := admin(b, p.URL())
			for i := range b.N {
				var granted time.Time
				next := make(chan *lockport.Lock)
				go func() {
					l, err := clients[(i+1)%2].Acquire(ctx, "x")
					granted = time.Now()
					if err != nil {
						b.Error(err)
					}
					next <- l
				}()
				waits := `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2)`
				if busy == 0 {
					waits = `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)`
				}
				require.Eventually(b, func() bool { return query[bool](b, watch, waits) }, soon, 2*time.Millisecond)
				start := time.Now()
				require.NoError(b, l.Release(ctx))
				l = <-next
				took = append(took, float64(granted.Sub(start).Nanoseconds()))
			}
			require.NoError(b, l.Release(ctx))
			cancel()
			b.ReportMetric(median(took), "hand-off-ns")
		})
	}
}

// BenchmarkHeld is what a held lock costs: memory in this process, and connections at the server.
func BenchmarkHeld(b *testing.B) {
	p := servers.NeedPostgres(b, servers.PostgresOptions{Settings: map[string]string{"max_locks_per_transaction": "1024"}})
	c := clientAt(b, p.URL())
	const locks = 10_000
	for range b.N {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		held := make([]*lockport.Lock, locks)
		for i := range held {
			held[i] = acquire(b, c, "held-"+strconv.Itoa(i))
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/locks, "B/lock")
		b.ReportMetric(float64(query[int64](b, admin(b, p.AdminURL()), `SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'lockport%'`)), "connections")
		for _, l := range held {
			require.NoError(b, l.Release(b.Context()))
		}
	}
}

func median(all []float64) float64 {
	all = slices.Clone(all)
	slices.Sort(all)
	return all[len(all)/2]
}
