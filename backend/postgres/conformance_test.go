package postgres

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

func TestConformance(t *testing.T) {
	p := servers.NeedPostgres(t, servers.PostgresOptions{})
	proxy, err := faultproxy.New(p.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = proxy.Close() })
	direct := with(t, p.URL(), "ttl", testTTL.String())
	names := new(names)
	conformance.Test(t, conformance.Config{
		Open: func(ctx context.Context, rawURL string) (driver.Backend, error) {
			b, err := openBackend(ctx, rawURL)
			return &recorder{b, names}, err
		},
		Target: via(t, direct, proxy.Addr()),
		Direct: direct,
		Faults: faults(t, p, proxy, names),
	})
}

// names are those that were asked for: from the server's keys they cannot be had.
type names struct{ seen sync.Map }

// recorder is a backend that notes the names.
type recorder struct {
	driver.Backend
	names *names
}

func (r *recorder) Unwrap() driver.Backend { return r.Backend }

func (r *recorder) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	r.names.seen.Store(req.Name, true)
	return r.Backend.TryAcquire(ctx, req)
}

// pool is one of the superuser.
func adminPool(t testing.TB, p *servers.Postgres) *pgxpool.Pool {
	config, err := pgxpool.ParseConfig(p.AdminURL())
	require.NoError(t, err)
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec // a restart makes what was prepared unknown
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

const onKey = `FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND classid::bigint = $1::bigint >> 32 & 4294967295
	AND objid::bigint = $1::bigint & 4294967295`

func faults(t testing.TB, p *servers.Postgres, proxy *faultproxy.Proxy, names *names) conformance.Faults {
	pool := adminPool(t, p)
	var mu sync.Mutex
	var foreign []*pgx.Conn
	t.Cleanup(func() {
		for _, conn := range foreign {
			_ = conn.Close(context.Background())
		}
	})
	key := func(name string) int64 {
		n, _ := layout{prefix: defaultPrefix}.key(name)
		return n
	}
	remove := func(ctx context.Context, name string) error {
		_, err := pool.Exec(ctx, `SELECT pg_terminate_backend(pid, 1000) `+onKey+` AND granted`, key(name))
		return err
	}
	return conformance.Faults{
		Restore: proxy.Restore,
		Sever:   func(context.Context) error { proxy.Cut(); return nil },
		Cut:     func(context.Context) error { proxy.KillConns(); return nil },
		Freeze:  func(context.Context) error { proxy.Freeze(); return nil },
		Delay:   func(_ context.Context, d time.Duration) error { proxy.Delay(d / 2); return nil }, // there and back
		DropReply: func(_ context.Context, op conformance.Op) (<-chan struct{}, error) {
			return proxy.DropReply(func(request []byte) bool { return isOp(op, request) }), nil
		},
		CutAfter: func(_ context.Context, n int) (<-chan struct{}, error) { return proxy.CutAfter(n), nil },
		Requests: func(context.Context) (int64, error) { return proxy.Requests(), nil },
		Conns:    func(context.Context) (int, error) { return proxy.Conns(), nil },
		Remove:   remove,
		Overwrite: func(ctx context.Context, name string) error {
			conn, err := pgx.Connect(ctx, p.AdminURL())
			if err != nil {
				return err
			}
			mu.Lock()
			foreign = append(foreign, conn)
			mu.Unlock()
			for got := false; !got; {
				if err := remove(ctx, name); err != nil {
					return err
				}
				if err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, key(name)).Scan(&got); err != nil {
					return err
				}
			}
			return nil
		},
		Restart: func(ctx context.Context, keepData bool) error {
			if !keepData {
				return conformance.ErrNoFault
			}
			done := make(chan error)
			go func() { // the goroutine that waits for the process is not the case's, by whose labels the suite looks for leaks
				pprof.SetGoroutineLabels(context.Background())
				done <- p.Restart(ctx)
			}()
			return <-done
		},
		Leftovers: func(ctx context.Context, prefix string) (left []string, err error) {
			names.seen.Range(func(k, _ any) bool {
				name := k.(string)
				if !strings.HasPrefix(name, prefix) {
					return true
				}
				hi, lo := side(key(name))
				var locks, sides int
				err = pool.QueryRow(ctx, `SELECT count(*) `+onKey, key(name)).Scan(&locks)
				if err == nil {
					err = pool.QueryRow(ctx, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2
						AND classid::bigint = $1::bigint & 4294967295 AND objid::bigint = $2::bigint & 4294967295`, hi, lo).Scan(&sides)
				}
				if locks > 0 || sides > 0 {
					left = append(left, fmt.Sprintf("%s: %d of the lock, %d of who awaits it", name, locks, sides))
				}
				return err == nil
			})
			return left, err
		},
	}
}

// isOp tells requests apart by the names of the statements that they carry out.
func isOp(op conformance.Op, request []byte) bool {
	switch op {
	case conformance.OpAcquire:
		return bytes.Contains(request, []byte("lp_try")) || bytes.Contains(request, []byte("lp_wait"))
	case conformance.OpRenew:
		return bytes.Contains(request, []byte("lp_ping"))
	case conformance.OpRelease:
		return bytes.Contains(request, []byte("lp_free"))
	}
	return true
}
