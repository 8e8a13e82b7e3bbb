package faults

import (
	"slices"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/play"
)

// Cells returns the faults that can happen in an environment of [environment.All], with their stated outcomes.
func Cells(environment string) []play.Cell {
	return map[string][]play.Cell{
		"file":           fileCells,
		"redis":          redisCells,
		"redis-failover": redisFailoverCells,
		"redis-replicas": redisReplicasCells,
		"redis-sentinel": redisSentinelCells,
		"redlock":        redlockCells,

		"etcd":         etcdCells(10),
		"etcd-alone":   forgets("revision"),
		"etcd-current": etcdCells(30),

		"zookeeper":       zooKeeperCells,
		"zookeeper-alone": forgets("count of transactions"),

		"postgres":           postgresCells,
		"postgres-failover":  postgresFailoverCells,
		"postgres-pgbouncer": postgresPoolerCells,

		"mysql": mySQLCells,

		"table-postgres":  tablePostgresCells,
		"table-pgbouncer": tablePoolerCells,
		"table-failover":  tableFailoverCells,
		"table-mysql":     tableCells,
	}[environment]
}

// OnlyInSoak says that only long runs play the cell: an earlier environment shows the same. That environment has the same backend. For harmless
// faults, it may be one whose locks end in the same way: the conformance suite shows what each backend does then.
func OnlyInSoak(e *environment.Environment, c *play.Cell) bool {
	for _, o := range environment.All() {
		if o.Name == e.Name {
			break
		}
		shown := slices.ContainsFunc(Cells(o.Name), func(x play.Cell) bool { return same(&x, c) })
		if shown && (o.Backend == e.Backend || c.Harmless && o.Sessions == e.Sessions) {
			return true
		}
	}
	return false
}

// same says that two cells state the same.
func same(a, b *play.Cell) bool {
	return a.Fault == b.Fault && a.Outcome == b.Outcome && a.Why == b.Why
}
