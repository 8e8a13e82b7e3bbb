package libraries_test

import (
	"context"
	"errors"
	"net/url"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/conformance/exhibits/libraries"
	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/servers"
)

// world is the servers that exhibits of one kind are run on.
type world struct {
	// addrs are those of the servers, target makes one of exhibits of such addresses.
	addrs  []string
	target func(addrs []string) string
	// hung says that the first server never answers.
	hung bool
	// direct, if not empty, is where the sound counterpart runs, past what stands in between.
	direct string
	// remove and restart are the faults that need no proxy.
	remove  func(ctx context.Context, prefix string) error
	restart func(ctx context.Context, keepData bool) error
}

// together joins the addresses, as most targets are.
func together(addrs []string) string { return strings.Join(addrs, ",") }

// worlds start the servers of each kind.
var worlds = map[libraries.Server]func(t *testing.T) *world{
	libraries.Redis: func(t *testing.T) *world {
		s := servers.NeedRedis(t, servers.RedisOptions{Own: true})
		return &world{addrs: []string{s.Addr()}, target: together,
			remove: func(ctx context.Context, name string) error {
				_, err := s.Do(ctx, "DEL", "libraries:"+libraries.Digest(name))
				return err
			},
			restart: func(ctx context.Context, keepData bool) error {
				if keepData {
					return conformance.ErrNoFault
				}
				// Without persistence it forgets everything.
				return unlabelled(func() error { return errors.Join(s.Kill(), s.Restart(ctx)) })
			}}
	},
	libraries.Redlock: func(t *testing.T) *world { return &world{addrs: five(t), target: together} },
	libraries.HungNode: func(t *testing.T) *world {
		return &world{addrs: five(t), target: together, hung: true}
	},
	libraries.Etcd: func(t *testing.T) *world {
		return &world{addrs: []string{servers.NeedEtcd(t, servers.EtcdOptions{}).Addr()}, target: together}
	},
	libraries.ZooKeeper: func(t *testing.T) *world {
		s := servers.NeedZooKeeper(t, servers.ZooKeeperOptions{})
		conn, _, err := zk.Connect([]string{s.Addr()}, 30*time.Second, zk.WithLogger(silent{}), zk.WithLogInfo(false), zk.WithDialer(servers.DialZooKeeper))
		require.NoError(t, err)
		t.Cleanup(conn.Close)
		return &world{addrs: []string{s.Addr()}, target: together,
			remove: func(_ context.Context, name string) error {
				return removeAll(conn, "/libraries/"+libraries.Digest(name))
			}}
	},
	libraries.Postgres: func(t *testing.T) *world {
		p := servers.NeedPostgres(t, servers.PostgresOptions{})
		return &world{addrs: []string{p.Addr()}, target: hostOf(p.URL())}
	},
	libraries.PgBouncer: func(t *testing.T) *world {
		p := servers.NeedPostgres(t, servers.PostgresOptions{})
		b := servers.NeedPgBouncer(t, servers.PgBouncerOptions{Server: p, Mode: "transaction", Config: []string{"default_pool_size = 1"}})
		return &world{addrs: []string{b.Addr()}, target: hostOf(b.URL()), direct: p.URL()}
	},
	libraries.MySQL: func(t *testing.T) *world {
		m := servers.NeedMariaDB(t, servers.MariaDBOptions{})
		config, err := mysql.ParseDSN(m.DSN())
		require.NoError(t, err)
		return &world{addrs: []string{m.Addr()}, target: func(addrs []string) string {
			c := config.Clone()
			c.Addr = addrs[0]
			return c.FormatDSN()
		}}
	},
}

// five are the nodes of a Redlock.
func five(t *testing.T) (addrs []string) {
	for range 5 {
		addrs = append(addrs, servers.NeedRedis(t, servers.RedisOptions{Own: true}).Addr())
	}
	return addrs
}

// hostOf puts an address into rawURL.
func hostOf(rawURL string) func([]string) string {
	return func(addrs []string) string {
		u, err := url.Parse(rawURL)
		if err != nil {
			panic(err)
		}
		u.Host = addrs[0]
		return u.String()
	}
}

// unlabelled runs f on a goroutine that is not the case's, by whose labels the suite looks for leaks: what f starts stays.
func unlabelled(f func() error) error {
	done := make(chan error)
	go func() {
		pprof.SetGoroutineLabels(context.Background())
		done <- f()
	}()
	return <-done
}

// removeAll removes a node and its children, as an operator does.
func removeAll(conn *zk.Conn, path string) error {
	nodes, _, err := conn.Children(path)
	for _, node := range nodes {
		err = errors.Join(err, conn.Delete(path+"/"+node, -1))
	}
	if err != nil {
		return err
	}
	return conn.Delete(path, -1)
}

// silent logs nothing.
type silent struct{}

func (silent) Printf(string, ...any) {}

// config is the suite's, on w behind proxies of its own.
func (w *world) config(t *testing.T, kind libraries.Server) conformance.Config {
	var proxies []*faultproxy.Proxy
	var addrs []string
	for _, addr := range w.addrs {
		proxy, err := faultproxy.New(addr)
		require.NoError(t, err)
		t.Cleanup(func() { _ = proxy.Close() })
		proxies, addrs = append(proxies, proxy), append(addrs, proxy.Addr())
	}
	if w.hung {
		proxies[0].Freeze()
		proxies = proxies[1:] // it stays so
	}
	all := func(fault func(*faultproxy.Proxy)) {
		for _, p := range proxies {
			fault(p)
		}
	}
	return conformance.Config{
		Target: w.target(addrs),
		Direct: w.target(w.addrs),
		Faults: conformance.Faults{
			Restore: func() { all((*faultproxy.Proxy).Restore) },
			Delay: func(_ context.Context, d time.Duration) error {
				all(func(p *faultproxy.Proxy) { p.Delay(d / 2) }) // there and back
				return nil
			},
			DropReply: func(_ context.Context, op conformance.Op) (<-chan struct{}, error) {
				var happened []<-chan struct{}
				all(func(p *faultproxy.Proxy) {
					happened = append(happened, p.DropReply(func(request []byte) bool { return kind.IsOp(op, request) }))
				})
				return afterAll(happened), nil
			},
			CutAfter: func(_ context.Context, n int) (<-chan struct{}, error) { return proxies[0].CutAfter(n), nil },
			Requests: func(context.Context) (int64, error) { return proxies[0].Requests(), nil },
			Remove:   w.remove,
			Restart:  w.restart,
		},
	}
}
