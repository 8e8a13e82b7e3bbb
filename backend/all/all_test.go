package all_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/etcd"
	"github.com/lockport/lockport/backend/file"
	"github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/backend/mysql"
	"github.com/lockport/lockport/backend/postgres"
	"github.com/lockport/lockport/backend/redis"
	"github.com/lockport/lockport/backend/redlock"
	"github.com/lockport/lockport/backend/table"
	"github.com/lockport/lockport/backend/zookeeper"
)

// Every New takes the same TTL, and says of a wrong option, its own or the library's, that it is one. None asks a server.
func TestOptionsOfEveryBackend(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/none")
	require.NoError(t, err)
	defer pool.Close()
	db, err := sql.Open("mysql", "nobody@tcp(127.0.0.1:1)/none")
	require.NoError(t, err)
	defer func() { _ = db.Close() }()
	etcdClient, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:1"}, Logger: zap.NewNop()})
	require.NoError(t, err)
	defer etcdClient.Close()
	redisClient := goredis.NewClient(&goredis.Options{Addr: "127.0.0.1:1"})
	defer redisClient.Close()

	for name, b := range map[string]struct {
		good, bad func(...lockport.Option) (*lockport.Client, error)
	}{
		"memory": {good: func(opts ...lockport.Option) (*lockport.Client, error) { return memory.New(memory.Options{}, opts...) }},
		"file": {
			func(opts ...lockport.Option) (*lockport.Client, error) { return file.New(file.Options{}, opts...) },
			func(opts ...lockport.Option) (*lockport.Client, error) {
				return file.New(file.Options{Dir: "locks"}, opts...)
			},
		},
		"redis": {
			func(opts ...lockport.Option) (*lockport.Client, error) {
				return redis.New(redisClient, redis.Options{}, opts...)
			},
			func(opts ...lockport.Option) (*lockport.Client, error) {
				return redis.New(nil, redis.Options{}, opts...)
			},
		},
		"redlock": {
			func(opts ...lockport.Option) (*lockport.Client, error) {
				return redlock.New([]*goredis.Client{redisClient, goredis.NewClient(&goredis.Options{Addr: "127.0.0.1:2"}), goredis.NewClient(&goredis.Options{Addr: "127.0.0.1:3"})}, redlock.Options{}, opts...)
			},
			func(opts ...lockport.Option) (*lockport.Client, error) {
				return redlock.New([]*goredis.Client{}, redlock.Options{}, opts...)
			},
		},
		"etcd": {
			func(opts ...lockport.Option) (*lockport.Client, error) {
				return etcd.New(etcdClient, etcd.Options{}, opts...)
			},
			func(opts ...lockport.Option) (*lockport.Client, error) { return etcd.New(nil, etcd.Options{}, opts...) },
		},
		"zookeeper": {
			func(opts ...lockport.Option) (*lockport.Client, error) {
				return zookeeper.Connect([]string{"127.0.0.1:1"}, zookeeper.Options{}, opts...)
			},
			func(opts ...lockport.Option) (*lockport.Client, error) {
				return zookeeper.Connect([]string{"127.0.0.1:1"}, zookeeper.Options{TickTime: -1}, opts...)
			},
		},
		"postgres": {
			func(opts ...lockport.Option) (*lockport.Client, error) {
				return postgres.New(pool, postgres.Options{}, opts...)
			},
			func(opts ...lockport.Option) (*lockport.Client, error) {
				return postgres.New(pool, postgres.Options{TTL: time.Minute}, append(opts, lockport.TTL(time.Hour))...)
			},
		},
		"table": {
			func(opts ...lockport.Option) (*lockport.Client, error) {
				return table.New(db, table.MySQL, table.Options{}, opts...)
			},
			func(opts ...lockport.Option) (*lockport.Client, error) {
				return table.New(db, table.MySQL, table.Options{Table: "no'table"}, opts...)
			},
		},
		"mysql": {
			func(opts ...lockport.Option) (*lockport.Client, error) {
				return mysql.New(db, mysql.Options{NoTokens: true}, opts...)
			},
			func(opts ...lockport.Option) (*lockport.Client, error) {
				return mysql.New(db, mysql.Options{Table: "no'table"}, opts...)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := b.good(lockport.TTL(30 * time.Second))
			require.NoError(t, err)
			if fixed := c.Capabilities().FixedTTL; fixed != 0 {
				require.Equal(t, 30*time.Second, fixed)
			}
			require.NoError(t, c.Close())

			_, err = b.good(lockport.TTL(-1))
			require.ErrorIs(t, err, lockport.ErrInvalidOption)
			if b.bad != nil {
				_, err = b.bad()
				require.ErrorIs(t, err, lockport.ErrInvalidOption)
				require.ErrorAs(t, err, new(*lockport.Error))
			}
		})
	}
}
