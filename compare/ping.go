package compare

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/go-zookeeper/zk"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	goredis "github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/lockport/lockport/internal/lab/measure"
)

// pinging is the measure.Config.Library that takes no lock: Acquire is a bare round trip to the servers of a URL, through a client of its own.
const pinging = "ping"

// ping sends bare requests to the servers of a URL.
type ping struct {
	ask func(context.Context) error
	end func() error
}

// questions are the bare requests by scheme, and how to open their clients.
var questions = map[string]struct {
	question string
	open     func(u *url.URL) (ping, error)
}{
	"file":           {"stat of the folder", pingFile},
	"redis":          {"PING", pingRedis},
	"redlock":        {"PING of a majority", pingRedis},
	"etcd":           {"linearizable read", pingEtcd},
	"zookeeper":      {"sync", pingZooKeeper},
	"postgres":       {"empty statement", pingPostgres},
	"postgresql":     {"empty statement", pingPostgres},
	"table+postgres": {"empty statement", pingPostgres},
	"mysql":          {"COM_PING", pingMySQL},
	"table+mysql":    {"COM_PING", pingMySQL},
}

// question is the bare request for a URL. It is empty if the scheme has none, or if the request needs more of the URL than hosts, user and password,
// such as TLS. Then there are no ratios.
func question(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil || strings.HasSuffix(u.Scheme, "mysql") && (u.Query().Has("tls") || u.Host == "") {
		return ""
	}
	return questions[u.Scheme].question
}

func openPing(rawURL string) (measure.Locker, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return measure.Locker{}, errors.New("the URL is malformed")
	}
	p, err := questions[u.Scheme].open(u)
	if err != nil {
		return measure.Locker{}, errors.New("no client for bare round trips could be opened") // the error may quote the URL
	}
	nothing := func(context.Context) error { return nil }
	return measure.Locker{Close: p.end, Acquire: func(ctx context.Context, _ string, _ bool) (measure.Release, error) { return nothing, p.ask(ctx) }}, nil
}

func pingFile(u *url.URL) (ping, error) {
	folder := cmp.Or(u.Path, os.TempDir())
	return ping{func(context.Context) error { _, err := os.Stat(folder); return err }, func() error { return nil }}, nil
}

func hosts(u *url.URL) []string { return append(strings.Split(u.Host, ","), u.Query()["addr"]...) }

// pingRedis asks all nodes at once, and waits for a majority, as a claim does.
func pingRedis(u *url.URL) (ping, error) {
	var nodes []*goredis.Client
	for _, host := range hosts(u) {
		one := url.URL{Scheme: "redis", User: u.User, Host: host, Path: u.Path}
		o, err := goredis.ParseURL(one.String())
		if err != nil {
			return ping{}, err
		}
		o.ContextTimeoutEnabled = true
		nodes = append(nodes, goredis.NewClient(o))
	}
	ask := func(ctx context.Context) (err error) {
		answers := make(chan error, len(nodes))
		for _, node := range nodes {
			go func() { answers <- node.Ping(ctx).Err() }()
		}
		for good, i := 0, 0; i < len(nodes); i++ {
			if e := <-answers; e != nil {
				err = e
			} else if good++; good > len(nodes)/2 {
				return nil
			}
		}
		return err
	}
	return ping{ask, func() (err error) {
		for _, node := range nodes {
			err = errors.Join(err, node.Close())
		}
		return err
	}}, nil
}

func pingEtcd(u *url.URL) (ping, error) {
	password, _ := u.User.Password()
	endpoints := hosts(u)
	for i, host := range endpoints {
		if !strings.Contains(host[strings.LastIndex(host, "]")+1:], ":") {
			endpoints[i] += ":2379"
		}
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, Username: u.User.Username(), Password: password, DialTimeout: openTime, Logger: zap.NewNop(),
	})
	if err != nil {
		return ping{}, err
	}
	return ping{func(ctx context.Context) error {
		_, err := client.Get(ctx, "lockport-compare", clientv3.WithCountOnly())
		return err
	}, client.Close}, nil
}

// pingZooKeeper sends a sync, which goes to the leader and back as a claim does. A read would not leave the server.
func pingZooKeeper(u *url.URL) (ping, error) {
	conn, _, err := zk.Connect(hosts(u), openTime, zk.WithLogInfo(false), zk.WithLogger(silent{}))
	return ping{func(context.Context) error { _, err := conn.Sync("/"); return err }, func() error { conn.Close(); return nil }}, err
}

type silent struct{}

func (silent) Printf(string, ...any) {}

func pingPostgres(u *url.URL) (ping, error) {
	own := url.URL{Scheme: "postgres", User: u.User, Host: u.Host, Path: u.Path}
	if mode := u.Query().Get("sslmode"); mode != "" {
		own.RawQuery = url.Values{"sslmode": {mode}}.Encode()
	}
	return pingSQL("pgx", own.String())
}

func pingMySQL(u *url.URL) (ping, error) {
	config := mysql.NewConfig()
	config.Net, config.Addr, config.User = "tcp", hosts(u)[0], u.User.Username()
	config.Passwd, _ = u.User.Password()
	return pingSQL("mysql", config.FormatDSN())
}

func pingSQL(driver, source string) (ping, error) {
	db, err := sql.Open(driver, source)
	if err != nil {
		return ping{}, err
	}
	db.SetMaxOpenConns(1)
	return ping{db.PingContext, db.Close}, nil
}

const openTime = 10 * time.Second
