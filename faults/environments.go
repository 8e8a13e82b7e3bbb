package faults

import (
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/play"
)

// Environment is an environment with the faults that can happen there.
type Environment struct {
	environment.Environment
	// Cells are the faults, and what is stated of each.
	Cells []play.Cell
}

// All are all environments, the backends in their usual order.
func All() []Environment {
	cells := map[string][]play.Cell{
		"file":           underLoad(fileCells, "holder-killed"),
		"redis":          underLoad(redisCells, "server-killed"),
		"redis-failover": redisFailoverCells,
		"redis-replicas": redisReplicasCells,
		"redis-sentinel": redisSentinelCells,
		"redlock":        redlockCells,

		"etcd":         underLoad(etcdCells(10), "leader-killed"),
		"etcd-alone":   forgets("revision"),
		"etcd-current": etcdCells(30),

		"zookeeper":       underLoad(zooKeeperCells, "leader-killed"),
		"zookeeper-alone": forgets("count of transactions"),

		"postgres":           underLoad(postgresCells, "server-killed"),
		"postgres-failover":  postgresFailoverCells,
		"postgres-pgbouncer": postgresPoolerCells,

		"mysql": underLoad(mySQLCells, "server-killed"),

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

// IsCommon says that the fault is one of those of workers and their network, which harm no server.
func IsCommon(c *play.Cell) bool { return find(Common(false), c.Fault) != nil }

// IsRepeated says that an earlier environment of the same backend has the same fault, and that the same is stated of it for the same reason.
func IsRepeated(e *Environment, c *play.Cell) bool {
	for _, o := range All() {
		if o.Name == e.Name {
			break
		}
		if same := find(o.Cells, c.Fault); o.Backend == e.Backend && same != nil && same.Outcome == c.Outcome && same.Why == c.Why {
			return true
		}
	}
	return false
}
