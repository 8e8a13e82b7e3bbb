package servers

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

// requireVariable lists programs whose absence fails a test instead of skipping it.
const requireVariable = "LOCKPORT_TEST_REQUIRE"

// Need functions start servers for one test: see the package comment. NeedReplica's master must belong to the test, not be shared.
var (
	NeedRedis       = needs("Redis", StartRedis)
	NeedReplica     = needs("a Redis replica", StartReplica)
	NeedCluster     = needs("a Redis Cluster", StartCluster)
	NeedZooKeeper   = needs("ZooKeeper", StartZooKeeper)
	NeedEnsemble    = needs("three ZooKeepers", StartEnsemble)
	NeedEtcd        = needs("etcd", StartEtcd)
	NeedEtcdCluster = needs("three etcds", StartEtcdCluster)
	NeedPostgres    = needs("PostgreSQL", StartPostgres)
	NeedPgBouncer   = needs("PgBouncer", StartPgBouncer)
	NeedMariaDB     = needs("MariaDB", StartMariaDB)
)

// Shared functions return the plain server of a kind that all tests of this process share: see the package comment, and Server.Kill.
var (
	SharedRedis     = shared("Redis", StartRedis)
	SharedEtcd      = shared("etcd", StartEtcd)
	SharedZooKeeper = shared("ZooKeeper", StartZooKeeper)
	SharedPostgres  = shared("PostgreSQL", StartPostgres)
	SharedMariaDB   = shared("MariaDB", StartMariaDB)
)

// running is a server or a group of servers.
type running interface {
	Close() error
	Log() string
}

func needs[O any, S running](title string, start func(context.Context, O) (S, error)) func(testing.TB, O) S {
	return func(t testing.TB, o O) S {
		t.Helper()
		return Need(t, title, false, func() (S, error) { return start(context.Background(), o) })
	}
}

func shared[O any, S node](title string, start func(context.Context, O) (S, error)) func(testing.TB) S {
	once := sync.OnceValues(func() (S, error) {
		s, err := start(context.Background(), *new(O))
		if err == nil {
			s.self().shared = true
		}
		return s, err
	})
	return func(t testing.TB) S {
		t.Helper()
		return Need(t, title, false, once)
	}
}

// Need returns what start makes and closes it when t ends. If start fails, Need skips or fails t by the rules of the package comment. title is for
// messages. If quick is set, the test runs under -short too. LOCKPORT_TEST_SERVERS, which scripts/clients.sh sets, overrides -short.
func Need[S running](t testing.TB, title string, quick bool, start func() (S, error)) S {
	t.Helper()
	if !quick && testing.Short() && os.Getenv("LOCKPORT_TEST_SERVERS") == "" {
		t.Skip("needs " + title + ": run go test without -short")
	}
	s, err := start()
	NeedInstalled(t, err)
	t.Cleanup(func() {
		if log := s.Log(); t.Failed() && log != "" {
			t.Logf("end of the log of %s:\n%s", title, log)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// NeedInstalled skips or fails t by the rules of the package comment, unless err is nil.
func NeedInstalled(t testing.TB, err error) {
	t.Helper()
	required := strings.FieldsFunc(os.Getenv(requireVariable), func(r rune) bool { return r == ',' || r == ' ' })
	missing, absent := errors.AsType[*NotInstalled](err)
	switch {
	case err == nil:
	case !absent, slices.Contains(required, missing.Program), slices.Contains(required, "all"):
		t.Fatal(err.Error())
	default:
		t.Skip(err.Error())
	}
}

// SkipOnMySQL skips what only MariaDB has, if Oracle's MySQL takes its place.
func SkipOnMySQL(t testing.TB) {
	if mysqld() != "" {
		t.Skip("only MariaDB has this")
	}
}

// NeedProgram returns the path of a program other than a server, such as "redis-cli" or "etcdctl", by the rules of [NeedInstalled].
func NeedProgram(t testing.TB, program string) string {
	t.Helper()
	path, err := find(program)
	NeedInstalled(t, err)
	return path
}

// Do sends a command, which must succeed, to r, and returns the reply.
func Do(t testing.TB, r *Redis, args ...any) any {
	t.Helper()
	reply, err := r.Do(context.Background(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}
