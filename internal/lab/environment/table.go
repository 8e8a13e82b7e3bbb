package environment

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/lockport/lockport/internal/lab/servers"
)

const (
	// usualTTL is the workers' TTL in most environments.
	usualTTL = 2 * time.Second
	// electionTTL outlasts a Sentinel failover. With a shorter TTL, a holder unknown to the new master would expire before that master exists.
	electionTTL = 8 * time.Second
	// patientTTL far outlasts a server's restart on a busy machine, so that holders still believe in their locks then.
	patientTTL = 30 * time.Second
)

// All returns the environments for fault injection, with the backends in their usual order.
func All() []Environment {
	return []Environment{
		{
			Name: "file", Title: "a folder of one machine", Backend: "file",
			TTL:      time.Second, // no effect on locks, but workers hold them for shorter times
			Sessions: true, Tokens: true, Readers: runtime.GOOS == "linux", Permits: true, Local: true, Start: startFolder,
		},
		on("redis", "redis", "one Redis that keeps its data", usualTTL, startRedis),
		on("redis", "redis-failover", "Redis with a replica that is promoted", usualTTL, startRedisPair("")),
		on("redis", "redis-replicas", "Redis with a replica that acknowledges (replicas=1)", usualTTL, startRedisPair("?replicas=1&wait_timeout=300ms")),
		on("redis", "redis-sentinel", "Redis with a replica and three Sentinels", electionTTL, startSentinel),
		onRedlock("redlock", "five Redis under Redlock, without persistence", 5),
		on("etcd", "etcd", "three etcds", usualTTL, startEtcds(servers.EtcdOptions{})),
		on("etcd", "etcd-alone", "one etcd", patientTTL, startEtcd(servers.EtcdOptions{Tick: EtcdTick})),
		on("etcd", "etcd-current", "three etcds of the current version", usualTTL, startEtcds(servers.EtcdOptions{Current: true})),
		on("zookeeper", "zookeeper", "three ZooKeepers", usualTTL, startEnsemble),
		on("zookeeper", "zookeeper-alone", "one ZooKeeper", patientTTL, startZooKeeper(patientTTL)),
		on("postgres", "postgres", "one PostgreSQL", usualTTL, startPostgres(postgresSessions)),
		on("postgres", "postgres-failover", "a PostgreSQL with a replica, which is promoted", usualTTL, startPostgresPair(postgresSessions)),
		on("postgres", "postgres-pgbouncer", "a PostgreSQL behind PgBouncer in session mode", usualTTL, pooled("session", 60, postgresSessions)),
		on("mysql", "mysql", "one MariaDB", usualTTL, startMySQL("60", mySQLSessions)),
		on("table", "table-postgres", "a table of a PostgreSQL", usualTTL, startPostgres(postgresRows)),
		on("table", "table-pgbouncer", "a table of a PostgreSQL behind PgBouncer in transaction mode", usualTTL, pooled("transaction", 20, postgresRows)),
		on("table", "table-failover", "a table of a PostgreSQL with a replica, which is promoted", usualTTL, startPostgresPair(postgresRows)),
		on("table", "table-mysql", "a table of a MariaDB", usualTTL, startMySQL("500", mySQLRows)),
	}
}

// forSuites returns further environments, for the conformance suite.
func forSuites() []Environment {
	return []Environment{
		on("redis", "redis-cluster", "a Redis Cluster", usualTTL, startCluster),
		onRedlock("redlock-three", "three Redis under Redlock that save their data", 3, saving),
		onRedlock("redlock-saving", "five Redis under Redlock that save their data", 5, saving),
		on("etcd", "etcd-suite", "one etcd with short elections", usualTTL, startEtcd(servers.EtcdOptions{})),
		on("etcd", "etcd-current-suite", "one etcd of the current version", usualTTL, startEtcd(servers.EtcdOptions{Current: true})),
		on("zookeeper", "zookeeper-suite", "one ZooKeeper with short sessions", usualTTL, startZooKeeper(usualTTL)),
	}
}

// Named returns the environment with this name.
func Named(name string) (*Environment, error) {
	all := slices.Concat(All(), forSuites())
	i := slices.IndexFunc(all, func(e Environment) bool { return e.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("there is no environment called %q", name)
	}
	return &all[i], nil
}

// withTTL makes a lock URL from the servers' URL.
func withTTL(server string, ttl time.Duration) string { return server + "?ttl=" + ttl.String() }

type starter = func(ctx context.Context) (Servers, error)

// starts makes a starter: start starts the servers with o, and arrange makes an environment of them.
func starts[O, S any, E Servers](start func(ctx context.Context, o O) (S, error), o O, arrange func(S) E) starter {
	return func(ctx context.Context) (Servers, error) {
		s, err := start(ctx, o)
		if err != nil {
			return nil, err
		}
		return arrange(s), nil
	}
}

// on returns an environment with a TTL. Its Margin follows docs/guarantees.md, P3a.
func on(backend, name, title string, ttl time.Duration, start starter) Environment {
	return Environment{
		Name: name, Title: title, Backend: backend, TTL: ttl, Margin: ttl/20 + 10*time.Millisecond, Tokens: true,
		Sessions: backend == "mysql" || backend == "postgres",
		Readers:  backend != "mysql" && backend != "table", Permits: backend != "table", Start: start,
	}
}

// saving makes servers save their data now and then and when they stop. Syncing every change would be slow with five servers on one machine.
const saving = "save 3600 1"

// onRedlock returns an environment of n independent servers with more lines of configuration.
func onRedlock(name, title string, n int, config ...string) Environment {
	e := on("redlock", name, title, usualTTL, startVoters(n, config...))
	e.Tokens, e.Readers, e.Permits = false, false, false
	e.Margin += usualTTL/100 + 2*time.Millisecond
	return e
}
