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

const (
	requireVariable  = "LOCKPORT_TEST_REQUIRE"
	redisURLVariable = "LOCKPORT_TEST_REDIS_URL"
)

// NeedRedis returns a Redis for t, closed when t ends; the package comment has the rules. With the
// zero options it is the one that LOCKPORT_TEST_REDIS_URL names, if that is set: its process is not the test's.
func NeedRedis(t testing.TB, o RedisOptions) *Redis {
	t.Helper()
	return need(t, "redis", func(ctx context.Context) (*Redis, error) {
		if url := os.Getenv(redisURLVariable); url != "" && o.plain() {
			return openRedis(ctx, url)
		}
		return StartRedis(ctx, o)
	})
}

// SharedRedis returns the plain Redis that all tests of this process share: the one of LOCKPORT_TEST_REDIS_URL, or one started
// by the first call, which ends with the process. Tests use names of their own on it, change no setting and flush nothing. Its
// Kill, Stop, Freeze, Thaw and Restart return an error that matches [errors.ErrUnsupported].
func SharedRedis(t testing.TB) *Redis {
	t.Helper()
	return need(t, "redis", func(context.Context) (*Redis, error) { return sharedRedis() })
}

var (
	sharedRedis = shared(func(ctx context.Context) (*Redis, error) {
		if url := os.Getenv(redisURLVariable); url != "" {
			return openRedis(ctx, url)
		}
		return StartRedis(ctx, RedisOptions{})
	})
	sharedEtcd      = shared(func(ctx context.Context) (*Etcd, error) { return StartEtcd(ctx, EtcdOptions{}) })
	sharedZooKeeper = shared(func(ctx context.Context) (*ZooKeeper, error) { return StartZooKeeper(ctx, ZooKeeperOptions{}) })
	sharedPostgres  = shared(func(ctx context.Context) (*Postgres, error) { return StartPostgres(ctx, PostgresOptions{}) })
	sharedMariaDB   = shared(func(ctx context.Context) (*MariaDB, error) { return StartMariaDB(ctx, MariaDBOptions{}) })
)

// shared has the first call start what all share.
func shared[S any](start func(context.Context) (S, error)) func() (S, error) {
	return sync.OnceValues(func() (s S, err error) {
		folder, err := lastingFolder()
		if err != nil {
			return s, err
		}
		return start(context.WithValue(context.Background(), sharedKey{}, folder))
	})
}

// SharedEtcd returns the plain etcd that all tests of this process share, by the rules of [SharedRedis].
func SharedEtcd(t testing.TB) *Etcd {
	t.Helper()
	return need(t, "etcd", func(context.Context) (*Etcd, error) { return sharedEtcd() })
}

// SharedZooKeeper returns the plain ZooKeeper that all tests of this process share, by the rules of [SharedRedis].
func SharedZooKeeper(t testing.TB) *ZooKeeper {
	t.Helper()
	return need(t, "zookeeper", func(context.Context) (*ZooKeeper, error) { return sharedZooKeeper() })
}

// SharedPostgres returns the plain Postgres that all tests of this process share, by the rules of [SharedRedis].
func SharedPostgres(t testing.TB) *Postgres {
	t.Helper()
	return need(t, "postgres", func(context.Context) (*Postgres, error) { return sharedPostgres() })
}

// SharedMariaDB returns the plain MariaDB that all tests of this process share, by the rules of [SharedRedis].
func SharedMariaDB(t testing.TB) *MariaDB {
	t.Helper()
	return need(t, "mariadb", func(context.Context) (*MariaDB, error) { return sharedMariaDB() })
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

// NeedReplica returns a replica of master, which the test started itself, for t.
func NeedReplica(t testing.TB, master *Redis) *Replica {
	t.Helper()
	return need(t, "redis", func(ctx context.Context) (*Replica, error) { return StartReplica(ctx, master) })
}

// NeedSentinel returns a Sentinel set for t.
func NeedSentinel(t testing.TB, o SentinelOptions) *Sentinel {
	t.Helper()
	return need(t, "redis", func(ctx context.Context) (*Sentinel, error) { return StartSentinel(ctx, o) })
}

// NeedCluster returns a Redis Cluster for t.
func NeedCluster(t testing.TB, o RedisOptions) *Cluster {
	t.Helper()
	return need(t, "redis", func(ctx context.Context) (*Cluster, error) { return StartCluster(ctx, o) })
}

// NeedZooKeeper returns a ZooKeeper that stands alone for t.
func NeedZooKeeper(t testing.TB, o ZooKeeperOptions) *ZooKeeper {
	t.Helper()
	return need(t, "zookeeper", func(ctx context.Context) (*ZooKeeper, error) { return StartZooKeeper(ctx, o) })
}

// NeedEnsemble returns a ZooKeeper ensemble for t.
func NeedEnsemble(t testing.TB, o ZooKeeperOptions) *Ensemble {
	t.Helper()
	return need(t, "zookeeper", func(ctx context.Context) (*Ensemble, error) { return StartEnsemble(ctx, o) })
}

// NeedEtcd returns an etcd that stands alone for t.
func NeedEtcd(t testing.TB, o EtcdOptions) *Etcd {
	t.Helper()
	return need(t, "etcd", func(ctx context.Context) (*Etcd, error) { return StartEtcd(ctx, o) })
}

// NeedEtcdCluster returns an etcd cluster for t.
func NeedEtcdCluster(t testing.TB, o EtcdOptions) *EtcdCluster {
	t.Helper()
	return need(t, "etcd", func(ctx context.Context) (*EtcdCluster, error) { return StartEtcdCluster(ctx, o) })
}

// NeedPostgres returns a Postgres for t.
func NeedPostgres(t testing.TB, o PostgresOptions) *Postgres {
	t.Helper()
	return need(t, "postgres", func(ctx context.Context) (*Postgres, error) { return StartPostgres(ctx, o) })
}

// NeedPgBouncer returns a PgBouncer for t.
func NeedPgBouncer(t testing.TB, o PgBouncerOptions) *PgBouncer {
	t.Helper()
	return need(t, "pgbouncer", func(ctx context.Context) (*PgBouncer, error) { return StartPgBouncer(ctx, o) })
}

// NeedMariaDB returns a MariaDB or MySQL for t. A MySQL that is not installed skips the test even where LOCKPORT_TEST_REQUIRE is "all",
// since distributions have no package of it: it must list "mysql".
func NeedMariaDB(t testing.TB, o MariaDBOptions) *MariaDB {
	t.Helper()
	kind := "mariadb"
	if o.MySQL {
		kind = "mysql"
	}
	return need(t, kind, func(ctx context.Context) (*MariaDB, error) { return StartMariaDB(ctx, o) })
}

// need returns what start makes, closed when t ends, or skips or fails t by the rules in the package comment.
func need[S interface {
	Close() error
	Log() string
}](t testing.TB, kind string, start func(context.Context) (S, error)) S {
	t.Helper()
	if testing.Short() {
		t.Skip("needs " + kind + ", which -short does without")
	}
	s, err := start(context.Background())
	NeedInstalled(t, err, kind)
	t.Cleanup(func() {
		if log := s.Log(); t.Failed() && log != "" {
			t.Logf("%s said last:\n%s", kind, log)
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

// NeedPythonRedis returns the Python that Debian's packages are for, which has the module redis.
func NeedPythonRedis(t testing.TB) string {
	t.Helper()
	const python = "/usr/bin/python3"
	if exec.Command(python, "-c", "import redis").Run() != nil {
		NeedInstalled(t, &NotInstalled{Program: "redis-py", Install: "apt-get install python3-redis (Debian)"})
	}
	return python
}

// NeedRedisCLI returns the path of redis-cli.
func NeedRedisCLI(t testing.TB) string {
	t.Helper()
	path, err := find("redis-cli", "apt-get install redis-tools (Debian), brew install redis (macOS)")
	NeedInstalled(t, err, "redis")
	return path
}

// required reports that a test must fail, not skip, where something is not installed: LOCKPORT_TEST_REQUIRE is "all", or
// lists one of its names ("redis,etcd"). "all" does not ask for MySQL itself, of which distributions have no package: list "mysql".
func required(names ...string) bool {
	if slices.Contains(names, "mysql") {
		return listed(names...)
	}
	return listed(append(names, "all")...)
}

// listed reports that LOCKPORT_TEST_REQUIRE lists one of the words.
func listed(words ...string) bool {
	list := strings.FieldsFunc(os.Getenv(requireVariable), func(r rune) bool { return r == ',' || r == ' ' })
	return slices.ContainsFunc(list, func(word string) bool { return slices.Contains(words, word) })
}
