package compare

import (
	"os"
	"testing"

	"github.com/redis/go-redis/v9/logging"

	_ "github.com/lockport/lockport/backend/etcd" // workers open them
	_ "github.com/lockport/lockport/backend/file"
	_ "github.com/lockport/lockport/backend/memory"
	_ "github.com/lockport/lockport/backend/mysql"
	_ "github.com/lockport/lockport/backend/postgres"
	_ "github.com/lockport/lockport/backend/redis"
	_ "github.com/lockport/lockport/backend/redlock"
	_ "github.com/lockport/lockport/backend/table"
	_ "github.com/lockport/lockport/backend/zookeeper"
)

func TestMain(m *testing.M) {
	logging.Disable()
	WorkerMain()
	os.Exit(m.Run())
}
