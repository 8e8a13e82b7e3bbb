package servers

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

// requireVariable lists kinds and programs whose absence fails a test instead of skipping it.
const requireVariable = "LOCKPORT_TEST_REQUIRE"

// Need functions start servers for one test: see the package comment. NeedReplica's master must belong to the test, not be shared.
var (
	NeedRedis       = needs("redis", StartRedis)
	NeedReplica     = needs("redis", StartReplica)
	NeedSentinel    = needs("redis", StartSentinel)
	NeedCluster     = needs("redis", StartCluster)
	NeedZooKeeper   = needs("zookeeper", StartZooKeeper)
	NeedEnsemble    = needs("zookeeper", StartEnsemble)
	NeedEtcd        = needs("etcd", StartEtcd)
	NeedEtcdCluster = needs("etcd", StartEtcdCluster)
	NeedPostgres    = needs("postgres", StartPostgres)
	NeedPgBouncer   = needs("pgbouncer", StartPgBouncer)
)

// Shared functions return the plain server of a kind that all tests of this process share. The first call starts it, and it ends with the process.
// Its Kill, Stop, Freeze, Thaw, Restart and WipeData return an error that matches [errors.ErrUnsupported].
var (
	SharedRedis     = shared("redis", StartRedis)
	SharedEtcd      = shared("etcd", StartEtcd)
	SharedZooKeeper = shared("zookeeper", StartZooKeeper)
	SharedPostgres  = shared("postgres", StartPostgres)
	SharedMariaDB   = shared("mariadb", StartMariaDB)
)

// NeedMariaDB returns a MariaDB or MySQL for t. If MySQL is missing, the test is skipped unless LOCKPORT_TEST_REQUIRE lists "mysql"; "all" is not
// enough, since distributions do not package it.
func NeedMariaDB(t testing.TB, o MariaDBOptions) *MariaDB {
	t.Helper()
	kind := "mariadb"
	if o.MySQL {
		kind = "mysql"
	}
	return needs(kind, StartMariaDB)(t, o)
}

// running is a server or a group of servers.
type running interface {
	Close() error
	Log() string
}

func needs[O any, S running](kind string, start func(context.Context, O) (S, error)) func(testing.TB, O) S {
	return func(t testing.TB, o O) S {
		t.Helper()
		return Need(t, kind, func() (S, error) { return start(context.Background(), o) }, kind)
	}
}

func shared[O any, S node](kind string, start func(context.Context, O) (S, error)) func(testing.TB) S {
	once := sync.OnceValues(func() (S, error) {
		s, err := start(context.Background(), *new(O))
		if err == nil {
			s.self().shared = true
		}
		return s, err
	})
	return func(t testing.TB) S {
		t.Helper()
		return Need(t, kind, once, kind)
	}
}

// Need returns what start makes and closes it when t ends. If start fails, Need skips or fails t by the rules of the package comment. title is for
// messages. Without kinds, the test runs under -short too. LOCKPORT_TEST_SERVERS, which scripts/clients.sh sets, overrides -short.
func Need[S running](t testing.TB, title string, start func() (S, error), kinds ...string) S {
	t.Helper()
	if len(kinds) > 0 && testing.Short() && os.Getenv("LOCKPORT_TEST_SERVERS") == "" {
		t.Skip("needs " + title + ": run go test without -short")
	}
	s, err := start()
	NeedInstalled(t, err, kinds...)
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

// NeedInstalled returns if err is nil. If err is a *NotInstalled, it skips t, unless LOCKPORT_TEST_REQUIRE is "all" or lists the program or one of
// the kinds. Any other error fails t.
func NeedInstalled(t testing.TB, err error, kinds ...string) {
	t.Helper()
	var missing *NotInstalled
	switch {
	case errors.As(err, &missing) && !required(append(kinds, missing.Program)...):
		t.Skip(err.Error())
	case err != nil:
		t.Fatal(err.Error())
	}
}

// NeedProgram returns the path of a program other than a server, such as "redis-cli" or "etcdctl", by the rules of [NeedInstalled].
func NeedProgram(t testing.TB, program string, kinds ...string) string {
	t.Helper()
	path, err := find(program)
	NeedInstalled(t, err, kinds...)
	return path
}

// NeedPythonRedis returns Debian's Python if it has the module redis, by the rules of [NeedInstalled].
func NeedPythonRedis(t testing.TB) string {
	t.Helper()
	const python = "/usr/bin/python3"
	if exec.Command(python, "-c", "import redis").Run() != nil {
		NeedInstalled(t, missing("redis-py"))
	}
	return python
}

// required reports whether a missing program must fail a test: LOCKPORT_TEST_REQUIRE lists one of names, or is "all". "all" does not require MySQL.
func required(names ...string) bool {
	if !slices.Contains(names, "mysql") {
		names = append(names, "all")
	}
	list := strings.FieldsFunc(os.Getenv(requireVariable), func(r rune) bool { return r == ',' || r == ' ' })
	return slices.ContainsFunc(list, func(word string) bool { return slices.Contains(names, word) })
}
