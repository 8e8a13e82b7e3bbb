package sqlfence_test

import (
	"fmt"
	"math"
	"testing"

	_ "github.com/lockport/lockport/backend/redis"
	"github.com/lockport/lockport/fence/sqlfence"
	"github.com/lockport/lockport/internal/lab/fencetest"
	"github.com/lockport/lockport/internal/lab/servers"
)

func TestMain(m *testing.M) { fencetest.Main(m, open) }

// Each case runs on each server, which is started once.
func TestPostgres(t *testing.T) {
	server := servers.NeedPostgres(t, servers.PostgresOptions{})
	target := server.URL()
	for _, kind := range []string{"pgx", "postgres"} {
		t.Run(kind, func(t *testing.T) { testDoor(t, kind, target, server.Addr()) })
	}
	t.Run("savepoint", func(t *testing.T) { testSavepoint(t, via(t, "pgx", target)) })
	for _, mode := range []string{"exec", "simple_protocol"} { // as behind a pooler
		t.Run(mode, func(t *testing.T) { testGuard(t, via(t, "pgx", target+"?default_query_exec_mode="+mode)) })
	}
}

func TestMariaDB(t *testing.T) {
	server := servers.NeedMariaDB(t, servers.MariaDBOptions{})
	target := server.DSN()
	testDoor(t, "mysql", target, server.Addr())
	t.Run("found rows", func(t *testing.T) {
		testGuard(t, via(t, "mysql", target+"?clientFoundRows=true&interpolateParams=true"))
	})
}

// testDoor checks the promises of all fences and those of SQL fences. The locks are on Redis, and expire while their holder is stopped.
func testDoor(t *testing.T, kind, target, addr string) {
	d := via(t, kind, target)
	for name, test := range map[string]func(*testing.T, door){
		"Guard": testGuard, "Waits": testWaits, "Tables": testTables,
	} {
		t.Run(name, func(t *testing.T) { test(t, d) })
	}
	fencetest.Cases(t, fencetest.Subject{
		Place:  fencetest.Place{Store: kind + " " + target, Locks: servers.SharedRedis(t).URL()},
		Errors: "sqlfence", Addr: addr, Max: math.MaxInt64, Transactional: true,
		Layout: "%d",
		Text: func(name string) string {
			return fmt.Sprint(d.number(t, "SELECT token FROM "+sqlfence.DefaultTable+" WHERE name = '"+name+"'"))
		},
	})
}
