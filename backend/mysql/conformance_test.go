package mysql

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

// testTTL is that of the suites.
const testTTL = 2 * time.Second

func TestConformance(t *testing.T) { conform(t, servers.MariaDBOptions{}) }

// TestConformanceMySQL is skipped where MySQL's own server is not installed.
func TestConformanceMySQL(t *testing.T) { conform(t, servers.MariaDBOptions{MySQL: true}) }

// conform runs the suite on a server behind a proxy.
func conform(t *testing.T, o servers.MariaDBOptions) {
	m := servers.NeedMariaDB(t, o)
	proxy, _, proxied := proxyFor(t, m)
	ttl := "?ttl=" + testTTL.String()
	f := lockFaults(t, m)
	f.Restore = proxy.Restore
	f.Sever = func(context.Context) error { proxy.Cut(); return nil }
	f.Cut = func(context.Context) error { proxy.KillConns(); return nil }
	f.Freeze = func(context.Context) error { proxy.Freeze(); return nil }
	f.Delay = func(_ context.Context, d time.Duration) error { proxy.Delay(d / 2); return nil } // there and back
	f.DropReply = func(_ context.Context, op conformance.Op) (<-chan struct{}, error) {
		return proxy.DropReply(func(request []byte) bool { return isOp(op, request) }), nil
	}
	f.CutAfter = func(_ context.Context, n int) (<-chan struct{}, error) { return proxy.CutAfter(n), nil }
	f.Conns = func(context.Context) (int, error) { return proxy.Conns(), nil }
	f.Requests = func(context.Context) (int64, error) { return proxy.Requests(), nil }
	conformance.Test(t, conformance.Config{Open: openURL, Target: proxied + ttl, Direct: m.URL() + ttl, Faults: f})
}

// isOp tells requests apart by their statements.
func isOp(op conformance.Op, request []byte) bool {
	switch op {
	case conformance.OpAcquire:
		return bytes.Contains(request, []byte("SELECT GET_LOCK("))
	case conformance.OpRenew:
		return len(request) == 5 && request[4] == 0x0e // COM_PING
	case conformance.OpRelease:
		return bytes.Contains(request, []byte("SELECT RELEASE_LOCK("))
	}
	return true
}

// lockFaults are those that need no proxy.
func lockFaults(t *testing.T, m *servers.MariaDB) conformance.Faults {
	admin := adminOf(t, m)
	keys := layout{prefix: defaultPrefix}
	// kill ends the session that has a lock. Somebody who waits may have it then.
	kill := func(ctx context.Context, key string) error {
		for first := (sql.NullInt64{}); ; {
			var holder sql.NullInt64
			err := admin.QueryRowContext(ctx, "SELECT IS_USED_LOCK(?)", key).Scan(&holder)
			if err != nil || !holder.Valid || first.Valid && holder != first {
				return err
			}
			first = holder
			_, _ = admin.ExecContext(ctx, fmt.Sprint("KILL ", holder.Int64)) // it may just have ended
		}
	}
	var mu sync.Mutex
	foreign := make(map[string]*sql.Conn) // who took a lock's place
	t.Cleanup(func() {
		for _, c := range foreign {
			_ = c.Close()
		}
	})
	return conformance.Faults{
		Remove: func(ctx context.Context, name string) error {
			key, err := keys.key(name)
			if err != nil {
				return err
			}
			return kill(ctx, string(key))
		},
		Overwrite: func(ctx context.Context, name string) error {
			key, err := keys.key(name)
			if err != nil {
				return err
			}
			c, err := admin.Conn(context.WithoutCancel(ctx))
			if err != nil {
				return err
			}
			mu.Lock()
			foreign[name] = c
			mu.Unlock()
			if err := kill(ctx, string(key)); err != nil {
				return err
			}
			var got int
			return c.QueryRowContext(ctx, "SELECT GET_LOCK(?,5)", string(key)).Scan(&got)
		},
		Leftovers: func(ctx context.Context, prefix string) ([]string, error) { return leftovers(ctx, admin, prefix) },
		Restart: func(ctx context.Context, keepData bool) error {
			return unlabelled(func() error {
				if err := m.Kill(); err != nil {
					return err
				}
				if err := m.Restart(ctx); err != nil {
					return err
				}
				if keepData {
					return nil
				}
				_, err := admin.ExecContext(ctx, "DROP TABLE IF EXISTS "+defaultTable)
				return err
			})
		},
	}
}

// leftovers are locks that are still held, or waited for, of names that begin with prefix.
func leftovers(ctx context.Context, admin *sql.DB, prefix string) (left []string, err error) {
	rows, err := admin.QueryContext(ctx, "SELECT id,name,IS_USED_LOCK(id) IS NOT NULL FROM "+defaultTable+" WHERE LEFT(name,?)=?", len(prefix), prefix)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	names := make(map[string]string)
	for rows.Next() {
		var id, name string
		var held bool
		if err := rows.Scan(&id, &name, &held); err != nil {
			return nil, err
		}
		if names[id] = name; held {
			left = append(left, "held: "+name)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	blocked, err := admin.QueryContext(ctx, "SELECT INFO FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT GET_LOCK(%'")
	if err != nil {
		return nil, err
	}
	defer func() { _ = blocked.Close() }()
	for blocked.Next() {
		var query string
		if err := blocked.Scan(&query); err != nil {
			return nil, err
		}
		if key := strings.Split(query, "'"); len(key) > 1 && names[key[1]] != "" {
			left = append(left, "waits: "+names[key[1]])
		}
	}
	return left, blocked.Err()
}

// unlabelled runs f on a goroutine that is not the case's, by whose labels the suite looks for leaks: what f starts stays.
func unlabelled(f func() error) error {
	done := make(chan error)
	go func() {
		pprof.SetGoroutineLabels(context.Background())
		done <- f()
	}()
	return <-done
}

// TestConformanceBare is without tokens, and so without a table, with one connection to wait on, and without faults. Who has a lock is then known by the
// number of its session alone, which is less than the suite asks of an Inspector.
func TestConformanceBare(t *testing.T) {
	m := servers.NeedMariaDB(t, servers.MariaDBOptions{})
	conformance.Test(t, conformance.Config{
		Open: func(ctx context.Context, rawURL string) (driver.Backend, error) {
			b, err := openURL(ctx, rawURL)
			if err != nil {
				return nil, err
			}
			return struct{ engine }{b.(*Backend).engine}, nil
		},
		Target: m.URL() + "?tokens=false&blockers=1&ttl=" + testTTL.String(),
	})
}
