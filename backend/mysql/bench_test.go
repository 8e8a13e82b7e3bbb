package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

// cycle is one acquisition and its release by goroutine g.
type cycle func(g int) error

// bench is what the benchmarks share: one server, a pool of 16 connections for what others would do, and our backends.
type bench struct {
	m      *servers.MariaDB
	one    *sql.Conn // pinned
	pool   *sql.DB
	tokens *Backend
	plain  *Backend // without tokens
}

func newBench(b *testing.B, durable bool) *bench {
	m := servers.NeedMariaDB(b, servers.MariaDBOptions{Durable: durable, Settings: map[string]string{
		"innodb-log-file-size": "96M", "innodb-buffer-pool-size": "128M", // the defaults: a small log is full after a few thousand commits
	}})
	db, err := sql.Open("mysql", m.DSN()+"?interpolateParams=true")
	require.NoError(b, err)
	b.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(16)
	db.SetMaxIdleConns(16)
	one, err := db.Conn(b.Context())
	require.NoError(b, err)
	b.Cleanup(func() { _ = one.Close() })
	x := &bench{m: m, one: one, pool: db, tokens: newBackend(b, m, Options{}), plain: newBackend(b, m, Options{NoTokens: true, Prefix: "plain:"})}
	_, err = one.ExecContext(b.Context(), "CREATE TABLE bench (id VARCHAR(64) PRIMARY KEY, token BIGINT UNSIGNED NOT NULL)")
	require.NoError(b, err)
	return x
}

func newBackend(t testing.TB, m *servers.MariaDB, o Options) *Backend {
	backend, err := NewBackend(configFor(t, m.DSN()), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, backend.Close()) })
	return backend
}

// queryer is a *sql.Conn or a *sql.DB.
type queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func getAndRelease(q queryer, name string) error {
	for _, query := range []string{"SELECT GET_LOCK(?,0)", "SELECT RELEASE_LOCK(?)"} {
		var ok int
		if err := q.QueryRowContext(context.Background(), query, name).Scan(&ok); err != nil || ok != 1 {
			return fmt.Errorf("%s: %d %w", query, ok, err)
		}
	}
	return nil
}

// bare is the floor: the two functions on one pinned connection.
func (x *bench) bare(g int) error { return getAndRelease(x.one, "bare"+strconv.Itoa(g)) }

// pinned is the floor for many goroutines: each cycle takes a connection of the pool and pins it.
func (x *bench) pinned(g int) error {
	c, err := x.pool.Conn(context.Background())
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	return getAndRelease(c, "bare"+strconv.Itoa(g))
}

// commit is what a token costs: one more statement, and its commit.
func (x *bench) commit(g int) error {
	_, err := x.one.ExecContext(context.Background(),
		"INSERT INTO bench VALUES (?,LAST_INSERT_ID(1)) ON DUPLICATE KEY UPDATE token=LAST_INSERT_ID(token+1)", strconv.Itoa(g))
	return err
}

// driven is a cycle of a backend.
func driven(backend *Backend) cycle {
	return func(g int) error {
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		lease, err := backend.TryAcquire(ctx, driver.Request{Name: strconv.Itoa(g), Owner: newOwner(), TTL: backend.server.o.TTL})
		if err != nil {
			return err
		}
		return lease.Release(ctx)
	}
}

// run makes n cycles on goroutines, each on a name of its own, and returns how long that took.
func run(b *testing.B, c cycle, goroutines, n int) time.Duration {
	start := time.Now()
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for range (n + goroutines - 1 - g) / goroutines {
				if err := c(g); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}

// compare alternates ours with a floor and reports ours, and medians over many short turns.
func compare(b *testing.B, floor, ours cycle, goroutines int) {
	turn := 25 * goroutines
	run(b, floor, goroutines, turn)
	run(b, ours, goroutines, turn)
	b.ReportAllocs()
	b.ResetTimer()
	b.StopTimer()
	var floors, ratios []float64
	for left := b.N; left > 0; left -= turn {
		n := min(left, turn)
		base := run(b, floor, goroutines, n)
		b.StartTimer()
		own := run(b, ours, goroutines, n)
		b.StopTimer()
		floors = append(floors, float64(base.Nanoseconds())/float64(n))
		ratios = append(ratios, float64(own)/float64(base))
	}
	b.ReportMetric(median(floors), "floor-ns/op")
	b.ReportMetric(median(ratios), "of-floor")
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

// BenchmarkCycle is an uncontended acquisition and release, alternating in one run with bare GET_LOCK and RELEASE_LOCK on one pinned connection. "token" is
// the statement that draws a token, with its commit, alone; "synced" is where commits are synced to disk.
func BenchmarkCycle(b *testing.B) {
	for _, durable := range []bool{false, true} {
		suffix := ""
		if durable {
			suffix = "-synced"
		}
		b.Run("without-token"+suffix, func(b *testing.B) {
			x := newBench(b, durable)
			compare(b, x.bare, driven(x.plain), 1)
		})
		b.Run("with-token"+suffix, func(b *testing.B) {
			x := newBench(b, durable)
			compare(b, x.bare, driven(x.tokens), 1)
		})
		b.Run("token-alone"+suffix, func(b *testing.B) {
			x := newBench(b, durable)
			compare(b, x.bare, x.commit, 1)
		})
	}
}

// BenchmarkLocker is the same for what a user sees.
func BenchmarkLocker(b *testing.B) {
	for _, o := range []Options{{NoTokens: true}, {}} {
		b.Run(fmt.Sprintf("tokens=%v", !o.NoTokens), func(b *testing.B) {
			x := newBench(b, false)
			c, err := lockport.New(newBackend(b, x.m, o), lockport.Logger(nil))
			require.NoError(b, err)
			b.Cleanup(func() { require.NoError(b, c.Close()) })
			compare(b, x.bare, func(g int) error {
				l, err := c.Acquire(context.Background(), strconv.Itoa(g))
				if err != nil {
					return err
				}
				return l.Release(context.Background())
			}, 1)
		})
	}
}

// BenchmarkMany is 64 goroutines on names of their own, against a pool of 16 connections of which each cycle pins one.
func BenchmarkMany(b *testing.B) {
	for _, tokens := range []bool{false, true} {
		b.Run(fmt.Sprintf("tokens=%v", tokens), func(b *testing.B) {
			x := newBench(b, false)
			ours := x.plain
			if tokens {
				ours = x.tokens
			}
			compare(b, x.pinned, driven(ours), 64)
		})
	}
}
