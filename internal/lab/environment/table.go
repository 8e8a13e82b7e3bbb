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
	current := onEtcd("etcd-current", "three etcds of the current version", usualTTL, startEtcds(servers.EtcdOptions{Current: true}))
	current.Variant = true
	return []Environment{
		{
			Name: "file", Title: "a folder of one machine", Backend: "file",
			TTL:      time.Second, // no effect on locks, but workers hold them for shorter times
			Sessions: true, Tokens: true, Readers: runtime.GOOS == "linux", Permits: true, RemovalNotice: 500 * time.Millisecond, Local: true, Start: startFolder,
		},
		onRedis("redis", "one Redis that keeps its data", usualTTL, startRedis),
		onRedis("redis-failover", "Redis with a replica that is promoted", usualTTL, startRedisPair("")),
		onRedis("redis-replicas", "Redis with a replica that acknowledges (replicas=1)", usualTTL, startRedisPair("?replicas=1&wait_timeout=300ms")),
		onRedis("redis-sentinel", "Redis with a replica and three Sentinels", electionTTL, startSentinel),
		onRedlock("redlock", "five Redis under Redlock, without persistence", 5),
		onEtcd("etcd", "three etcds", usualTTL, startEtcds(servers.EtcdOptions{})),
		onEtcd("etcd-alone", "one etcd", patientTTL, startEtcd(servers.EtcdOptions{Tick: EtcdTick})),
		current,
		onZooKeeper("zookeeper", "three ZooKeepers", usualTTL, startEnsemble),
		onZooKeeper("zookeeper-alone", "one ZooKeeper", patientTTL, startZooKeeper(patientTTL)),
		onSQL("postgres", "postgres", "one PostgreSQL", startPostgres(postgresSessions), "postgres"),
		onSQL("postgres", "postgres-failover", "a PostgreSQL with a replica, which is promoted", startPostgresPair(sessionURL), "postgres"),
		onSQL("postgres", "postgres-pgbouncer", "a PostgreSQL behind PgBouncer in session mode", pooled("session", 60, postgresSessions), "postgres", "pgbouncer"),
		onSQL("mysql", "mysql", "one MariaDB", startMySQL(false, "60", mySQLSessions), "mariadb"),
		onRows("table-postgres", "a table of a PostgreSQL", startPostgres(postgresRows), "postgres"),
		onRows("table-pgbouncer", "a table of a PostgreSQL behind PgBouncer in transaction mode", pooled("transaction", 20, postgresRows), "postgres", "pgbouncer"),
		onRows("table-failover", "a table of a PostgreSQL with a replica, which is promoted", startPostgresPair(rowsURL), "postgres"),
		onRows("table-mysql", "a table of a MariaDB", startMySQL(false, "500", mySQLRows), "mariadb"),
	}
}

// forSuites returns further environments, for the conformance suite.
func forSuites() []Environment {
	return []Environment{
		onRedis("redis-cluster", "a Redis Cluster", usualTTL, startCluster),
		onRedlock("redlock-three", "three Redis under Redlock that save their data", 3, saving),
		onRedlock("redlock-saving", "five Redis under Redlock that save their data", 5, saving),
		onEtcd("etcd-suite", "one etcd with short elections", usualTTL, startEtcd(servers.EtcdOptions{})),
		onEtcd("etcd-current-suite", "one etcd of the current version", usualTTL, startEtcd(servers.EtcdOptions{Current: true})),
		onZooKeeper("zookeeper-suite", "one ZooKeeper with short sessions", usualTTL, startZooKeeper(usualTTL)),
		onSQL("mysql", "mysql-own", "one MySQL", startMySQL(true, "60", mySQLSessions), "mysql"),
		onRows("table-mysql-own", "a table of a MySQL", startMySQL(true, "500", mySQLRows), "mysql"),
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
func on(backend, name, title string, ttl, notice time.Duration, start starter, needs ...string) Environment {
	return Environment{
		Name: name, Title: title, Backend: backend, TTL: ttl, Margin: ttl/20 + 10*time.Millisecond, Tokens: true,
		Readers: backend != "mysql" && backend != "table", Permits: backend != "table", RemovalNotice: notice, Needs: needs, Start: start,
	}
}

// onRedis returns an environment whose holders learn of a removal at their next renewal.
func onRedis(name, title string, ttl time.Duration, start starter) Environment {
	return on("redis", name, title, ttl, ttl/3+100*time.Millisecond, start, "redis")
}

// saving makes servers save their data now and then and when they stop. Syncing every change would be slow with five servers on one machine.
const saving = "save 3600 1"

// onRedlock returns an environment of n independent servers with more lines of configuration.
func onRedlock(name, title string, n int, config ...string) Environment {
	e := onRedis(name, title, usualTTL, startVoters(n, config...))
	e.Backend, e.Tokens, e.Readers, e.Permits = "redlock", false, false, false
	e.Margin += usualTTL/100 + 2*time.Millisecond
	return e
}

func onEtcd(name, title string, ttl time.Duration, start starter) Environment {
	return on("etcd", name, title, ttl, 250*time.Millisecond, start, "etcd")
}

func onZooKeeper(name, title string, ttl time.Duration, start starter) Environment {
	return on("zookeeper", name, title, ttl, 500*time.Millisecond, start, "zookeeper")
}

// onSQL returns an environment whose locks belong to a session with a SQL server.
func onSQL(backend, name, title string, start starter, needs ...string) Environment {
	e := on(backend, name, title, usualTTL, time.Second, start, needs...)
	e.Sessions = true
	return e
}

// onRows returns an environment whose locks are rows of a table. Holders learn of a removal at their next renewal.
func onRows(name, title string, start starter, needs ...string) Environment {
	return on("table", name, title, usualTTL, usualTTL/3+100*time.Millisecond, start, needs...)
}
