// Package worlds sets up the real servers on which locks are put to the test, and makes what can go wrong with them.
package worlds

import (
	"slices"

	"github.com/lockport/lockport/faults"
)

// All are all arrangements, the backends in their usual order.
func All() []faults.Arrangement {
	return []faults.Arrangement{
		underLoad(File, "holder-killed"),
		underLoad(Redis, "server-killed"), RedisFailover, RedisReplicas, RedisSentinel, Redlock,
		underLoad(Etcd, "leader-killed"), EtcdAlone, variant(EtcdCurrent),
		underLoad(ZooKeeper, "leader-killed"), ZooKeeperAlone,
		underLoad(Postgres, "server-killed"), PostgresFailover, PostgresPooler,
		underLoad(MySQL, "server-killed"),
	}
}

// variant is a, for long runs.
func variant(a faults.Arrangement) faults.Arrangement {
	a.Variant = true
	return a
}

// underLoad is a with one cell more: the fault strikes while tokens are drawn by the thousand.
func underLoad(a faults.Arrangement, fault string) faults.Arrangement {
	i := slices.IndexFunc(a.Cells, func(c faults.Cell) bool { return c.Fault == fault })
	a.Cells = append(slices.Clone(a.Cells), faults.UnderLoad(a.Cells[i]))
	return a
}
