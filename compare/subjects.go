package compare

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lab/measure"
	"github.com/lockport/lockport/internal/lab/report"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/lockurl"
)

// subject is a column of a report: locks of one backend, on servers started here or on a user's.
type subject struct {
	report.Subject
	kind  string // key of servers.Versions
	setup string // what runs for the costs
	ttl   time.Duration
	start func(ctx context.Context) (*measure.Servers, error) // nil: its costs are not measured
}

// ownTTL is the TTL of locks on servers started here: the shortest that etcd grants with its default settings.
const ownTTL = 2 * time.Second

// ownSubjects are on servers started here. While costs are measured, all servers have their default durability, which most people run: they sync to
// disk what they promise to keep.
var ownSubjects = []subject{
	{Subject: report.Subject{Name: report.Article, Title: "An article's lock", Servers: "Redis"}, kind: "redis"},
	own("file", "File", "", "", "a folder of this machine", measure.StartFolder),
	own("redis", "Redis", "Redis", "redis", "one Redis, which writes nothing to disk", measure.Start(servers.StartRedis, servers.RedisOptions{})),
	own("redlock", "Redlock", "Redis", "redis", "five independent Redis, which write nothing to disk",
		measure.Start(servers.StartVoters(5), servers.RedisOptions{})),
	own("etcd", "etcd", "etcd", "etcd", "three etcds, which sync every change to disk; default heartbeats and elections",
		measure.Start(servers.StartEtcdCluster, servers.EtcdOptions{Tick: 100 * time.Millisecond})),
	// Nodes take a silence of 1.5 s for a failure. A shorter limit makes a busy machine elect new leaders needlessly.
	own("zookeeper", "ZooKeeper", "ZooKeeper", "zookeeper",
		"three ZooKeepers, which sync every change to disk; tickTime is 100 ms instead of 2 s, to allow short sessions",
		measure.Start(servers.StartEnsemble, servers.ZooKeeperOptions{Config: []string{"forceSync=yes", "syncLimit=15"}})),
	own("postgres", "PostgreSQL", "PostgreSQL", "postgres", "one PostgreSQL, which syncs commits to disk", startPostgres),
	own("mysql", "MariaDB", "MariaDB", "mariadb", "one MariaDB, which syncs commits to disk",
		measure.Start(servers.StartMariaDB, servers.MariaDBOptions{Config: []string{"innodb-flush-log-at-trx-commit=1"}})),
	own("table", "Table", "PostgreSQL", "postgres", "a table of one PostgreSQL, which syncs commits to disk", startTable),
}

func own(name, title, server, kind, setup string, start func(context.Context) (*measure.Servers, error)) subject {
	return subject{report.Subject{Name: name, Title: title, Servers: server, Page: name}, kind, setup, ownTTL, start}
}

var startPostgres = measure.Start(servers.StartPostgres, servers.PostgresOptions{Config: []string{"fsync = on", "full_page_writes = on"}})

func startTable(ctx context.Context) (*measure.Servers, error) {
	s, err := startPostgres(ctx)
	if err == nil {
		s.URL = "table+" + s.URL + "?create=true&sslmode=disable"
	}
	return s, err
}

// userSubjects are on a user's own servers. Each was opened once and has granted a lock. Further subjects of one backend have a number.
func userSubjects(ctx context.Context, urls []string) (all []subject, err error) {
	count := make(map[string]int)
	for _, rawURL := range urls {
		b, named, err := lockport.DefaultMux().OpenBackend(rawURL)
		if err != nil {
			return nil, err
		}
		backend, shown := b.Capabilities().Backend, lockurl.Address(rawURL)
		_ = b.Close()
		ttl, err := ask(ctx, rawURL, named)
		if err == nil && backend == "memory" {
			err = errors.New("its locks exist within one process, but several processes are measured: leave it out")
		}
		if err != nil {
			return nil, fmt.Errorf("%s cannot be measured: %w", shown, err)
		}
		s := subject{
			Subject: report.Subject{Name: backend, Title: backend, URL: shown}, ttl: ttl, setup: "the servers at " + shown,
			start: func(context.Context) (*measure.Servers, error) {
				return &measure.Servers{URL: rawURL, Close: func() error { return nil }}, nil
			},
		}
		for _, o := range ownSubjects {
			if o.Name == backend {
				s.Title, s.Page = o.Title, o.Page
			}
		}
		if backend == "mysql" {
			s.Title = "MySQL" // or MariaDB
		}
		if count[backend]++; count[backend] > 1 {
			s.Name, s.Title = fmt.Sprint(s.Name, "-", count[backend]), fmt.Sprint(s.Title, " ", count[backend])
		}
		all = append(all, s)
	}
	return all, nil
}

// ask finds out whether a server grants locks, and with which TTL: named, which is that of the URL, or a short one if the server grants it, so that
// takeovers take little time, or the default.
func ask(ctx context.Context, rawURL string, named time.Duration) (ttl time.Duration, err error) {
	if named > 0 {
		return named, grants(ctx, rawURL, named)
	}
	if err = grants(ctx, rawURL, ownTTL); errors.Is(err, lockport.ErrRefused) { // it may be too short for the server
		return lockport.DefaultTTL, grants(ctx, rawURL, lockport.DefaultTTL)
	}
	return ownTTL, err
}

// grants returns nil if the servers grant and release a lock with that TTL.
func grants(ctx context.Context, rawURL string, ttl time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	client, err := lockport.Open(ctx, rawURL, lockport.TTL(ttl), lockport.Logger(nil), lockport.Label("compare"))
	if err != nil {
		return err
	}
	defer client.Close()
	lock, err := client.Acquire(ctx, "lockport-compare-"+rand.Text()[:8])
	if err != nil {
		return err
	}
	return lock.Release(ctx)
}
