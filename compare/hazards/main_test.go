package hazards

import (
	"os"
	"testing"

	// What workers open.
	_ "github.com/lockport/lockport/backend/etcd"
	_ "github.com/lockport/lockport/backend/file"
	_ "github.com/lockport/lockport/backend/mysql"
	_ "github.com/lockport/lockport/backend/postgres"
	_ "github.com/lockport/lockport/backend/redis"
	_ "github.com/lockport/lockport/backend/redlock"
	_ "github.com/lockport/lockport/backend/table"
	_ "github.com/lockport/lockport/backend/zookeeper"
)

func TestMain(m *testing.M) {
	WorkerMain()
	os.Exit(m.Run())
}
