package faults

import (
	"slices"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/play"
)

// Environment is an environment with the faults that can happen there.
type Environment struct {
	environment.Environment
	// Cells are the faults, with their stated outcomes.
	Cells []play.Cell
}

// All returns all environments, the backends in their usual order.
func All() []Environment {
	cells := map[string][]play.Cell{
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
	}
	var all []Environment
	for _, e := range environment.All() {
		all = append(all, Environment{e, cells[e.Name]})
	}
	return all
}

// OnlyInSoak says that only long runs play the cell: the environment is a variant, or an earlier environment shows the same. That environment has
// the same backend. For harmless faults, it may be one whose locks end in the same way: the conformance suite shows what each backend does then.
func OnlyInSoak(e *Environment, c *play.Cell) bool {
	if e.Variant {
		return true
	}
	for _, o := range All() {
		if o.Name == e.Name {
			break
		}
		shown := slices.ContainsFunc(o.Cells, func(x play.Cell) bool { return same(&x, c) })
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
