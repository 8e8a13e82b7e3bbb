package servers

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// requireVariable lists kinds and programs without which a test fails.
const requireVariable = "LOCKPORT_TEST_REQUIRE"

// Need functions start servers for one test; the package comment has the rules. The master of NeedReplica must be the test's own.
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

// Shared functions return the plain server of a kind that all tests of this process share. The first call starts it, and it ends with the
// process. Its Kill, Stop, Freeze, Thaw, Restart and WipeData return an error that matches [errors.ErrUnsupported].
var (
	SharedRedis     = shared("redis", StartRedis)
	SharedEtcd      = shared("etcd", StartEtcd)
	SharedZooKeeper = shared("zookeeper", StartZooKeeper)
	SharedPostgres  = shared("postgres", StartPostgres)
	SharedMariaDB   = shared("mariadb", StartMariaDB)
)

// NeedMariaDB returns a MariaDB or MySQL for t. A MySQL that is not installed skips the test even where LOCKPORT_TEST_REQUIRE is "all",
// since distributions have no package of it: it must list "mysql".
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

func shared[O any, S running](kind string, start func(context.Context, O) (S, error)) func(testing.TB) S {
	once := sync.OnceValues(func() (s S, err error) {
		folder, err := lastingFolder()
		if err != nil {
			return s, err
		}
		return start(context.WithValue(context.Background(), sharedKey{}, folder), *new(O))
	})
	return func(t testing.TB) S {
		t.Helper()
		return Need(t, kind, once, kind)
	}
}

// Need returns what start makes, closed when t ends, or skips or fails t by the rules of the package comment. title is for messages. What needs no kind of server
// runs with -short, too, as everything does where LOCKPORT_TEST_SERVERS is set: scripts/clients.sh does that.
func Need[S running](t testing.TB, title string, start func() (S, error), kinds ...string) S {
	t.Helper()
	if len(kinds) > 0 && testing.Short() && os.Getenv("LOCKPORT_TEST_SERVERS") == "" {
		t.Skip("not run: needs " + title + ", which -short does without")
	}
	s, err := start()
	NeedInstalled(t, err, kinds...)
	t.Cleanup(func() {
		if log := s.Log(); t.Failed() && log != "" {
			t.Logf("%s said last:\n%s", title, log)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// NeedInstalled goes on with t if err is nil, and skips it if err is a *NotInstalled, unless LOCKPORT_TEST_REQUIRE is "all" or lists
// its program or one of the kinds. Any other error fails t.
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

// NeedProgram returns the path of a program that is no server, such as "redis-cli" or "etcdctl", by the rules of [NeedInstalled].
func NeedProgram(t testing.TB, program string, kinds ...string) string {
	t.Helper()
	path, err := find(program)
	NeedInstalled(t, err, kinds...)
	return path
}

// NeedPythonRedis returns the Python that Debian's packages are for, which has the module redis.
func NeedPythonRedis(t testing.TB) string {
	t.Helper()
	const python = "/usr/bin/python3"
	if exec.Command(python, "-c", "import redis").Run() != nil {
		NeedInstalled(t, missing("redis-py"))
	}
	return python
}

// TempDir makes TMPDIR, until the end of t, an empty folder that servers can use. A [testing.T.TempDir] alone is closed to the
// user as whom servers of root's run.
func TempDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o711), os.Chmod(dir, 0o711)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", dir)
	return dir
}

// required reports that a test must fail, not skip, where something is not installed: LOCKPORT_TEST_REQUIRE lists one of its names, or
// is "all", which does not ask for MySQL itself.
func required(names ...string) bool {
	if !slices.Contains(names, "mysql") {
		names = append(names, "all")
	}
	list := strings.FieldsFunc(os.Getenv(requireVariable), func(r rune) bool { return r == ',' || r == ' ' })
	return slices.ContainsFunc(list, func(word string) bool { return slices.Contains(names, word) })
}
