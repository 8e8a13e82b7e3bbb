package hazards

import "github.com/lockport/lockport/internal/lab/report"

// goldenServers are the hazards that come from servers, of a quick run.
var goldenServers = map[string]report.Class{
	"H7-article": report.Unsafe, "H7-redis": report.Fenced, "H7-redis-replicas-1": report.Unavailable, "H7-redlock": report.Safe, "H7-etcd": report.Safe,
	"H7-zookeeper": report.Safe, "H7-postgres": report.Fenced, "H7-mysql": report.Fenced,

	"H8-article": report.Unsafe, "H8-file": report.Fenced, "H8-redis": report.Fenced, "H8-redlock": report.Unsafe, "H8-etcd": report.Safe,
	"H8-etcd-alone": report.Unsafe, "H8-zookeeper": report.Safe, "H8-zookeeper-alone": report.Unsafe, "H8-postgres": report.Safe,
	"H8-postgres-behind-a-silent-link": report.Fenced, "H8-mysql": report.Safe, "H8-mysql-behind-a-silent-link": report.Fenced,

	"H9-article": report.Unsafe, "H9-redis": report.Fenced, "H9-redlock": report.Unsafe,

	"H10-article": report.Unsafe, "H10-redis": report.Safe, "H10-redlock": report.Safe, "H10-etcd": report.Safe, "H10-zookeeper": report.Safe,
	"H10-postgres": report.Safe, "H10-mysql": report.Safe,

	"H11-article": report.Costly, "H11-redis": report.Safe, "H11-redlock": report.Safe, "H11-etcd": report.Safe, "H11-zookeeper": report.Safe,
	"H11-postgres": report.Safe, "H11-mysql": report.Safe,

	"H12-article": report.Misled, "H12-article-an-error-is-taken-for-held": report.Misled, "H12-file": report.Unavailable, "H12-redis": report.Unavailable,
	"H12-redlock": report.Unavailable, "H12-etcd": report.Unavailable, "H12-zookeeper": report.Unavailable, "H12-postgres": report.Unavailable,
	"H12-mysql": report.Unavailable,

	"H13-article": report.Unsafe, "H13-file": report.Fenced, "H13-redis": report.Fenced, "H13-redlock": report.Unsafe, "H13-etcd": report.Fenced,
	"H13-zookeeper": report.Fenced, "H13-postgres": report.Fenced, "H13-mysql": report.Fenced,
}

// goldenFull are the cells that a quick run leaves out.
var goldenFull = map[string]report.Class{
	"H7-redis-sentinel": report.Fenced, "H7-postgres-two-primaries": report.Fenced, "H7-postgres-two-primaries-and-a-crash": report.Unsafe,
	"H8-redlock-three-of-five": report.Unsafe, "H9-redis-set-back": report.Stuck, "H9-redlock-three-of-five": report.Unsafe,
	"H11-article-every-millisecond": report.Costly,
}
