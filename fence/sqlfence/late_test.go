package sqlfence_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	_ "github.com/lockport/lockport/backend/mysql"
	_ "github.com/lockport/lockport/backend/postgres"
	_ "github.com/lockport/lockport/backend/redis"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/fence/sqlfence"
	"github.com/lockport/lockport/internal/lab/fencetest"
	"github.com/lockport/lockport/internal/lab/servers"
)

func TestMain(m *testing.M) { os.Exit(fencetest.Main(m, openLocks, open)) }

// openLocks uses ttl unless the session has its own.
func openLocks(ctx context.Context, target string, ttl time.Duration) (*lockport.Client, error) {
	options := []lockport.Option{lockport.Logger(slog.New(slog.DiscardHandler))}
	if strings.HasPrefix(target, "redis:") {
		options = append(options, lockport.TTL(ttl))
	}
	return lockport.Open(ctx, target, options...)
}

// Each case runs on each server, which is started once.
func TestPostgres(t *testing.T) {
	server := servers.NeedPostgres(t, servers.PostgresOptions{})
	target := server.URL()
	for _, kind := range []string{"pgx", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			d := via(t, kind, target)
			testDoor(t, d)
			testCases(t, d, kind, target, server.Addr())
		})
	}
	t.Run("savepoint", func(t *testing.T) { testSavepoint(t, via(t, "pgx", target)) })
	for _, mode := range []string{"exec", "simple_protocol"} { // as behind a pooler
		t.Run(mode, func(t *testing.T) { testGuard(t, via(t, "pgx", target+"?default_query_exec_mode="+mode)) })
	}
	testTerminated(t, "postgres", target, target+"?ttl=30s")
}

func TestMariaDB(t *testing.T) { testMySQL(t, servers.MariaDBOptions{}) }

func TestMySQL(t *testing.T) { testMySQL(t, servers.MariaDBOptions{MySQL: true}) }

func testMySQL(t *testing.T, o servers.MariaDBOptions) {
	server := servers.NeedMariaDB(t, o)
	target := server.DSN()
	d := via(t, "mysql", target)
	testDoor(t, d)
	testCases(t, d, "mysql", target, server.Addr())
	t.Run("found rows", func(t *testing.T) {
		testGuard(t, via(t, "mysql", target+"?clientFoundRows=true&interpolateParams=true"))
	})
	testTerminated(t, "mysql", target, server.URL()+"?ttl=30s")
}

func testDoor(t *testing.T, d door) {
	for name, test := range map[string]func(*testing.T, door){
		"Guard": testGuard, "NoTime": testNoTime, "Waits": testWaits, "WithoutTable": testWithoutTable, "Tables": testTables,
	} {
		t.Run(name, func(t *testing.T) { test(t, d) })
	}
}

// testCases checks the promises of all fences on one kind of store. Its locks are on Redis, and expire while their holder is stopped.
func testCases(t *testing.T, d door, kind, target, addr string) {
	fencetest.Cases(t, fencetest.Subject{
		Place:  fencetest.Place{Store: kind + " " + target, Locks: servers.SharedRedis(t).URL()},
		Errors: "sqlfence", Addr: addr, Max: math.MaxInt64, Transactional: true,
		Stored: func(name string, token lockport.Token) {
			require.EqualValues(t, token, d.number(t, "SELECT token FROM "+sqlfence.DefaultTable+" WHERE name = '"+name+"'"))
		},
	})
}

// testTerminated makes holders write late after their locks, on the same database, were lost with a terminated session.
func testTerminated(t *testing.T, kind, store, locks string) {
	t.Run("terminated", func(t *testing.T) {
		fencetest.Late(t, fencetest.Place{Store: kind + " " + store, Locks: locks}, terminates(locks), fencetest.ByToken)
	})
}

// terminates ends the sessions that hold the locks of some names.
func terminates(locks string) func(context.Context, []string) error {
	return func(ctx context.Context, names []string) error {
		b, _, err := lockport.DefaultMux().OpenBackend(locks)
		if err != nil {
			return err
		}
		defer func() { _ = b.Close() }()
		ended := errors.New("no session had locks")
		for _, name := range names {
			st, err := b.(driver.Inspector).Inspect(ctx, name)
			if err != nil {
				return err
			}
			if st.Held { // otherwise the session ended with another name's lock
				ended = b.(driver.SessionBreaker).BreakSession(ctx, name, st.Owner)
			}
		}
		return ended
	}
}
