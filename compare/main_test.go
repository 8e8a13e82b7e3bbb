package compare

import (
	"context"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/lockport/lockport"
	_ "github.com/lockport/lockport/backend/etcd" // what workers open
	_ "github.com/lockport/lockport/backend/file"
	_ "github.com/lockport/lockport/backend/memory"
	_ "github.com/lockport/lockport/backend/mysql"
	_ "github.com/lockport/lockport/backend/postgres"
	_ "github.com/lockport/lockport/backend/redis"
	_ "github.com/lockport/lockport/backend/redlock"
	_ "github.com/lockport/lockport/backend/table"
	_ "github.com/lockport/lockport/backend/zookeeper"
	"github.com/lockport/lockport/driver"
)

func TestMain(m *testing.M) {
	logging.Disable()
	lockport.Register(lockport.Scheme{Name: "everybody", Open: func(*url.URL, lockport.SchemeOptions) (driver.Backend, error) { return everybody{}, nil }})
	WorkerMain()
	os.Exit(m.Run())
}

// everybody is a lock that everybody gets.
type everybody struct{}

func (everybody) TryAcquire(_ context.Context, req driver.Request) (driver.Lease, error) {
	return everybodys{until: time.Now().Add(req.TTL)}, nil
}

func (everybody) Abandon(context.Context, driver.Request) error { return nil }
func (everybody) Capabilities() driver.Capabilities {
	return driver.Capabilities{Backend: "everybody", Ends: driver.EndsTTL}
}
func (everybody) Close() error { return nil }

type everybodys struct{ until time.Time }

func (l everybodys) Grant() driver.Grant { return driver.Grant{Until: l.until} }
func (l everybodys) Renew(context.Context) (time.Time, error) {
	return time.Now().Add(time.Second), nil
}
func (l everybodys) Release(context.Context) error { return nil }
