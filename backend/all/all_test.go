package all_test

import (
	"database/sql"
	"fmt"
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
	"github.com/lockport/lockport/internal/lab/peer"
)

// build makes a client with options.
type build func(...lockport.Option) (*lockport.Client, error)

// with calls New of a backend that needs no server.
func with[O any](create func(O, ...lockport.Option) (*lockport.Client, error), o O) build {
	return func(opts ...lockport.Option) (*lockport.Client, error) { return create(o, opts...) }
}

// on calls New of a backend on a server.
func on[S, O any](create func(S, O, ...lockport.Option) (*lockport.Client, error), server S, o O) build {
	return func(opts ...lockport.Option) (*lockport.Client, error) { return create(server, o, opts...) }
}

func newTable(db *sql.DB, o table.Options, opts ...lockport.Option) (*lockport.Client, error) {
	return table.New(db, table.MySQL, o, opts...)
}

// Every New takes the same TTL, and says of a wrong option, its own or the library's, that it is one. None asks a server. A claim that fails because
// there is no server leaves nothing for Close to undo.
func TestOptionsOfEveryBackend(t *testing.T) {
	pool := peer.Must(pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/none"))(t)
	defer pool.Close()
	db := peer.Must(sql.Open("mysql", "nobody@tcp(127.0.0.1:1)/none"))(t)
	defer func() { _ = db.Close() }()
	server := peer.Must(clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:1"}, Logger: zap.NewNop()}))(t)
	defer server.Close()
	var nodes []*goredis.Client
	for i := range 3 {
		nodes = append(nodes, goredis.NewClient(&goredis.Options{Addr: fmt.Sprint("127.0.0.1:", i+1)}))
		defer nodes[i].Close()
	}
	ensemble := []string{"127.0.0.1:1"}
	for name, b := range map[string]struct{ good, bad build }{
		"memory":    {good: with(memory.New, memory.Options{})},
		"file":      {with(file.New, file.Options{}), with(file.New, file.Options{Dir: "locks"})},
		"redis":     {on(redis.New, goredis.UniversalClient(nodes[0]), redis.Options{}), on(redis.New, nil, redis.Options{})},
		"redlock":   {on(redlock.New[*goredis.Client], nodes, redlock.Options{}), on(redlock.New[*goredis.Client], nil, redlock.Options{})},
		"etcd":      {on(etcd.New, server, etcd.Options{}), on(etcd.New, nil, etcd.Options{})},
		"zookeeper": {on(zookeeper.Connect, ensemble, zookeeper.Options{}), on(zookeeper.Connect, ensemble, zookeeper.Options{TickTime: -1})},
		"postgres": {on(postgres.New, pool, postgres.Options{}), func(opts ...lockport.Option) (*lockport.Client, error) {
			return postgres.New(pool, postgres.Options{TTL: time.Minute}, append(opts, lockport.TTL(time.Hour))...)
		}},
		"table": {on(newTable, db, table.Options{}), on(newTable, db, table.Options{Table: "no'table"})},
		"mysql": {on(mysql.New, db, mysql.Options{NoTokens: true}), on(mysql.New, db, mysql.Options{Table: "no'table"})},
	} {
		t.Run(name, func(t *testing.T) {
			c := peer.Must(b.good(lockport.TTL(30 * time.Second)))(t)
			if fixed := c.Capabilities().FixedTTL; fixed != 0 {
				require.Equal(t, 30*time.Second, fixed)
			}
			if name != "memory" && name != "file" {
				require.ErrorIs(t, peer.ErrOf(c.Acquire(t.Context(), "a")), lockport.ErrUnavailable)
			}
			require.NoError(t, c.Close())

			require.ErrorIs(t, peer.ErrOf(b.good(lockport.TTL(-1))), lockport.ErrInvalidOption)
			if b.bad != nil {
				err := peer.ErrOf(b.bad())
				require.ErrorIs(t, err, lockport.ErrInvalidOption)
				require.ErrorAs(t, err, new(*lockport.Error))
			}
		})
	}
}
