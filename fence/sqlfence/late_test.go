package sqlfence_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lockport/lockport"
	_ "github.com/lockport/lockport/backend/mysql"
	_ "github.com/lockport/lockport/backend/postgres"
	_ "github.com/lockport/lockport/backend/redis"
	"github.com/lockport/lockport/fence/sqlfence"
	"github.com/lockport/lockport/internal/lab/fencetest"
	"github.com/lockport/lockport/internal/lab/servers"
)

func TestMain(m *testing.M) {
	kinds := map[string]fencetest.Kind{"pgx": {Store: openPgx, Locks: openLocks}}
	for _, way := range []way{guarded, columned, unguarded} {
		kinds["postgres "+string(way)] = fencetest.Kind{Store: openSQL(sqlfence.Postgres, way), Locks: openLocks}
		kinds["mysql "+string(way)] = fencetest.Kind{Store: openSQL(sqlfence.MySQL, way), Locks: openLocks}
	}
	os.Exit(fencetest.Main(m, kinds))
}

// openLocks heeds ttl where the session does not have one of its own.
func openLocks(ctx context.Context, target string, ttl time.Duration) (*lockport.Client, error) {
	options := []lockport.Option{lockport.Logger(slog.New(slog.DiscardHandler))}
	if strings.HasPrefix(target, "redis:") {
		options = append(options, lockport.TTL(ttl))
	}
	return lockport.Open(ctx, target, options...)
}

// Each case on each server, which is started once.
func TestPostgres(t *testing.T) {
	target := servers.NeedPostgres(t, servers.PostgresOptions{}).URL()
	t.Run("pgx", func(t *testing.T) { testDoor(t, viaPgx(t, target)) })
	t.Run("savepoint", func(t *testing.T) { testSavepoint(t, viaPgx(t, target)) })
	for _, mode := range []string{"exec", "simple_protocol"} { // as behind a pooler
		t.Run(mode, func(t *testing.T) { testGuard(t, viaPgx(t, target+"?default_query_exec_mode="+mode)) })
	}
	t.Run("database/sql", func(t *testing.T) { testDoor(t, viaSQL(t, sqlfence.Postgres, target)) })
	t.Run("column", func(t *testing.T) { testColumn(t, sqlfence.Postgres, target) })
	testLate(t, target, target+"?ttl=30s", terminatePostgres(target), "postgres unguarded", "pgx", "postgres guarded", "postgres columned")
}

func TestMariaDB(t *testing.T) { testMySQL(t, servers.MariaDBOptions{}) }

func TestMySQL(t *testing.T) { testMySQL(t, servers.MariaDBOptions{MySQL: true}) }

func testMySQL(t *testing.T, o servers.MariaDBOptions) {
	server := servers.NeedMariaDB(t, o)
	target := server.DSN()
	t.Run("database/sql", func(t *testing.T) { testDoor(t, viaSQL(t, sqlfence.MySQL, target)) })
	t.Run("found rows", func(t *testing.T) {
		testGuard(t, viaSQL(t, sqlfence.MySQL, target+"?clientFoundRows=true&interpolateParams=true"))
	})
	t.Run("column", func(t *testing.T) { testColumn(t, sqlfence.MySQL, target+"?clientFoundRows=true") })
	testLate(t, target, server.URL()+"?ttl=30s", terminateMySQL(target), "mysql unguarded", "mysql guarded", "mysql columned")
}

func testDoor(t *testing.T, d door) {
	for name, test := range map[string]func(*testing.T, door){
		"Guard": testGuard, "NoTime": testNoTime, "Undone": testUndone, "Waits": testWaits, "WithoutTable": testWithoutTable, "Tables": testTables,
	} {
		t.Run(name, func(t *testing.T) { test(t, d) })
	}
}

// testLate has holders write late that lost their locks without knowing: each kind of store, and the last of them once more without a fence. Locks on
// Redis are lost by being stopped for longer than their TTL; those on the database itself since their session is terminated.
func testLate(t *testing.T, store string, locks string, terminate func(context.Context, []string) error, without string, kinds ...string) {
	run := func(how, kind string, run func(*testing.T, fencetest.Run), locks string, lose func(context.Context, []string) error) {
		t.Run("late/"+how+"/"+kind, func(t *testing.T) {
			run(t, fencetest.Run{Kind: kind, Store: store, Locks: locks, Lose: lose})
		})
	}
	for _, kind := range kinds {
		run("stopped", kind, fencetest.Refuses, servers.SharedRedis(t).URL(), nil)
		run("terminated", kind, fencetest.Refuses, locks, terminate)
	}
	run("stopped", without, fencetest.Loses, servers.SharedRedis(t).URL(), nil)
	run("terminated", without, fencetest.Loses, locks, terminate)
}

// terminatePostgres terminates the sessions that have locks.
func terminatePostgres(target string) func(context.Context, []string) error {
	return func(ctx context.Context, _ []string) error {
		db, err := openDB("pgx", target)
		if err != nil {
			return err
		}
		defer func() { _ = db.Close() }()
		var ended int
		err = db.QueryRowContext(ctx, "SELECT count(pg_terminate_backend(pid, 5000)) FROM "+
			"(SELECT DISTINCT pid FROM pg_locks WHERE locktype = 'advisory' AND granted) AS holders").Scan(&ended)
		if err == nil && ended == 0 {
			err = errors.New("no session had locks")
		}
		return err
	}
}

// terminateMySQL kills the sessions that have the locks of these names.
func terminateMySQL(target string) func(context.Context, []string) error {
	return func(ctx context.Context, names []string) error {
		db, err := openDB("mysql", target)
		if err != nil {
			return err
		}
		defer func() { _ = db.Close() }()
		holders := map[int64]bool{}
		for _, name := range names {
			var id sql.NullInt64
			key := fmt.Sprintf("%x", sha256.Sum256([]byte("lockport:"+name)))
			if err := db.QueryRowContext(ctx, "SELECT IS_USED_LOCK(?)", key).Scan(&id); err != nil {
				return err
			}
			if id.Valid && !holders[id.Int64] {
				holders[id.Int64] = true
				if _, err := db.ExecContext(ctx, fmt.Sprintf("KILL %d", id.Int64)); err != nil {
					return err
				}
			}
		}
		if len(holders) == 0 {
			return errors.New("no session had locks")
		}
		return nil
	}
}
