// Package all imports every backend of this module, so that lockport.Open knows all their URL schemes. It is meant for
// programs that are told by configuration which backend to use, such as the command lockport; a service that uses one
// backend imports that one.
package all

import (
	_ "github.com/lockport/lockport/backend/etcd"      // etcd:, etcds:
	_ "github.com/lockport/lockport/backend/file"      // file:
	_ "github.com/lockport/lockport/backend/memory"    // memory:
	_ "github.com/lockport/lockport/backend/mysql"     // mysql:
	_ "github.com/lockport/lockport/backend/postgres"  // postgres:, postgresql:
	_ "github.com/lockport/lockport/backend/redis"     // redis:, rediss:, redis+sentinel:, redis+cluster:
	_ "github.com/lockport/lockport/backend/redlock"   // redlock:, redlocks:
	_ "github.com/lockport/lockport/backend/table"     // table+postgres:, table+mysql:, table+sqlite:
	_ "github.com/lockport/lockport/backend/zookeeper" // zookeeper:
)
