package costs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/go-zookeeper/zk"
	"github.com/jackc/pgx/v5"
	goredis "github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// pinger makes bare round trips to the servers of a URL with a client of its own: what a lock costs is told as a multiple of them.
type pinger struct {
	question string // what is asked, such as "PING"
	ping     func(context.Context) error
	close    func()
}

// Question implements measure.Pinger. p may be nil.
func (p *pinger) Question() string {
	if p == nil {
		return ""
	}
	return p.question
}

// Ping implements measure.Pinger.
func (p *pinger) Ping(ctx context.Context) error { return p.ping(ctx) }

// openPinger opens the pinger of a lockport URL. It is nil where there is no server, or where the URL needs more than a host, a user and a password, as TLS
// does: then there are no ratios. Parameters of locks in the URL are ignored.
func openPinger(ctx context.Context, rawURL string) (*pinger, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, errors.New("the URL is malformed")
	}
	hosts := append(strings.Split(u.Host, ","), u.Query()["addr"]...)
	password, _ := u.User.Password()
	switch u.Scheme {
	case "file":
		stat := func(context.Context) error { _, err := os.Stat(orElse(u.Path, os.TempDir())); return err }
		return &pinger{"stat of the folder", stat, func() {}}, nil
	case "redis", "redlock":
		return pingRedis(u, hosts), nil
	case "etcd":
		client, err := clientv3.New(clientv3.Config{
			Endpoints: withPorts(hosts, "2379"), Username: u.User.Username(), Password: password, DialTimeout: openTime, Logger: zap.NewNop(),
		})
		if err != nil {
			return nil, err
		}
		get := func(ctx context.Context) error {
			_, err := client.Get(ctx, "lockport-compare", clientv3.WithCountOnly())
			return err
		}
		return &pinger{"linearizable read", get, func() { _ = client.Close() }}, nil
	case "zookeeper":
		conn, _, err := zk.Connect(withPorts(hosts, "2181"), openTime, zk.WithLogInfo(false), zk.WithLogger(silent{}))
		if err != nil {
			return nil, err
		}
		// A sync goes to the leader and back, as a claim does; a read would not leave the server.
		return &pinger{"sync", func(context.Context) error { _, err := conn.Sync("/"); return err }, conn.Close}, nil
	case "postgres", "postgresql":
		own := *u
		own.RawQuery = url.Values{"sslmode": {orElse(u.Query().Get("sslmode"), "prefer")}}.Encode()
		conn, err := pgx.Connect(ctx, own.String())
		if err != nil {
			return nil, errors.New("the database cannot be opened for bare round trips") // the error of pgx may quote the URL
		}
		ping := func(ctx context.Context) error { _, err := conn.Exec(ctx, "SELECT 1"); return err }
		return &pinger{"SELECT 1", ping, func() { _ = conn.Close(context.Background()) }}, nil
	case "mysql":
		if u.Query().Has("tls") || u.Host == "" {
			return nil, nil
		}
		config := mysql.NewConfig()
		config.Net, config.Addr, config.User, config.Passwd = "tcp", withPorts(hosts, "3306")[0], u.User.Username(), password
		connector, err := mysql.NewConnector(config)
		if err != nil {
			return nil, err
		}
		db := sql.OpenDB(connector)
		db.SetMaxOpenConns(1)
		return &pinger{"COM_PING", db.PingContext, func() { _ = db.Close() }}, nil
	}
	return nil, nil
}

// pingRedis asks all nodes at once, and waits for a majority of them, as a claim does.
func pingRedis(u *url.URL, hosts []string) *pinger {
	var nodes []*goredis.Client
	for _, host := range withPorts(hosts, "6379") {
		password, _ := u.User.Password()
		o := &goredis.Options{Addr: host, Username: u.User.Username(), Password: password, ContextTimeoutEnabled: true}
		_, _ = fmt.Sscan(strings.Trim(u.Path, "/"), &o.DB)
		nodes = append(nodes, goredis.NewClient(o))
	}
	p := &pinger{"PING", func(ctx context.Context) error { return nodes[0].Ping(ctx).Err() }, func() {
		for _, node := range nodes {
			_ = node.Close()
		}
	}}
	if u.Scheme != "redlock" {
		return p
	}
	p.question = "PING of a majority"
	p.ping = func(ctx context.Context) (err error) {
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
	return p
}

// withPorts adds port to the hosts that have none.
func withPorts(hosts []string, port string) []string {
	all := make([]string, len(hosts))
	for i, host := range hosts {
		if all[i] = host; !strings.Contains(host[strings.LastIndex(host, "]")+1:], ":") {
			all[i] += ":" + port
		}
	}
	return all
}

func orElse(text, or string) string {
	if text == "" {
		return or
	}
	return text
}

// silent is a zk.Logger.
type silent struct{}

func (silent) Printf(string, ...any) {}
