package environment

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

// sessionTTL is that of the backends whose locks belong to a session with a SQL server.
const sessionTTL = 2 * time.Second

func sqlOf(name, title, backend string, needs []string, start func(ctx context.Context) (Servers, error)) Environment {
	return Environment{
		Name: name, Title: title, Backend: backend, TTL: sessionTTL, Margin: marginOf(sessionTTL), Sessions: true, Tokens: true,
		RemovalNotice: 100 * time.Millisecond, Needs: needs, Start: start,
	}
}

var postgresEnvironment = sqlOf("postgres", "one PostgreSQL", "postgres", []string{"postgres"}, func(ctx context.Context) (Servers, error) {
	s, err := servers.StartPostgres(ctx, servers.PostgresOptions{})
	if err != nil {
		return nil, err
	}
	return &Postgres{absent: absent{"one PostgreSQL"}, group: group[*servers.Postgres]{s}, Server: s}, nil
})

// Postgres is one PostgreSQL server.
type Postgres struct {
	absent
	group[*servers.Postgres]
	Server *servers.Postgres

	mu      sync.Mutex
	foreign []*pgx.Conn // those of somebody else
	names   sync.Map    // that were asked for: the server's keys do not tell them
}

// Nodes implements Servers.
func (p *Postgres) Nodes() []Node { return p.group.Nodes() }

// URL implements Servers.
func (p *Postgres) URL(addrs []string) string { return postgresURL(p.Server.URL(), addrs) }

// postgresURL is the server's own URL with other addresses and our TTL.
func postgresURL(server string, addrs []string) string {
	u, _ := url.Parse(server)
	u.Host, u.RawQuery = strings.Join(addrs, ","), "ttl="+sessionTTL.String()
	return u.String()
}

// Close implements Servers.
func (p *Postgres) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range p.foreign {
		_ = conn.Close(context.Background())
	}
	return p.group.Close()
}

// Heal implements Servers.
func (p *Postgres) Heal(ctx context.Context) error {
	if err := Revive(ctx, p.Server); err != nil {
		return err
	}
	return AskPostgres(ctx, p.Server, "ALTER SYSTEM RESET ALL", "SELECT pg_reload_conf()")
}

// Restart implements Servers.
func (p *Postgres) Restart(ctx context.Context, keepData bool) error {
	if !keepData {
		return p.lacks("nothing is restarted without its data")
	}
	return p.Server.Restart(ctx)
}

// AskPostgres runs statements as the administrator, as soon as the server lets them in: it may be recovering from a crash.
func AskPostgres(ctx context.Context, server *servers.Postgres, statements ...string) error {
	return AtPostgres(ctx, server, func(conn *pgx.Conn) error {
		for _, sql := range statements {
			if _, err := conn.Exec(ctx, sql); err != nil {
				return fmt.Errorf("%s: %w", sql, err)
			}
		}
		return nil
	})
}

// AtPostgres lends a connection of the administrator, as soon as the server lets them in.
func AtPostgres(ctx context.Context, server *servers.Postgres, use func(conn *pgx.Conn) error) error {
	conn, err := dialPostgres(ctx, server)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return use(conn)
}

func dialPostgres(ctx context.Context, server *servers.Postgres) (conn *pgx.Conn, err error) {
	err = Eventually(ctx, func(ctx context.Context) error {
		conn, err = pgx.Connect(ctx, server.AdminURL())
		return err
	})
	return conn, err
}

// The layout on the backend's page, for the name $1: the key of its lock, what pg_locks has of that, and what it has of those who await it.
const (
	keyOfName = `('x' || encode(substring(sha256('lockport:'::bytea || $1::bytea), 1, 8), 'hex'))::bit(64)::bigint`
	lockRows  = `FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND (classid::bigint << 32 | objid::bigint) = ` + keyOfName
	sideRows  = `FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND (classid::bigint << 32 | objid::bigint) =
		('x' || encode(substring(sha256(convert_to('lockport.side:' || ` + keyOfName + `::text, 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint`
)

// Remove ends the session that has the lock on name.
func (p *Postgres) Remove(ctx context.Context, name string) error {
	return AtPostgres(ctx, p.Server, func(conn *pgx.Conn) error { return endSession(ctx, conn, name) })
}

func endSession(ctx context.Context, conn *pgx.Conn, name string) error {
	var ended bool
	err := conn.QueryRow(ctx, "SELECT pg_terminate_backend(pid, 5000) "+lockRows+" AND granted", []byte(name)).Scan(&ended)
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrNotHeld
	}
	if err == nil && !ended {
		err = errors.New("the session does not end")
	}
	return err
}

// Overwrite implements Servers.
func (p *Postgres) Overwrite(ctx context.Context, name string) error {
	conn, err := dialPostgres(ctx, p.Server)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.foreign = append(p.foreign, conn)
	p.mu.Unlock()
	for got := false; !got; { // somebody who waits may be quicker
		if err := endSession(ctx, conn, name); err != nil && !errors.Is(err, ErrNotHeld) {
			return err
		}
		if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock("+keyOfName+")", []byte(name)).Scan(&got); err != nil {
			return err
		}
	}
	return nil
}

// Leftovers implements Servers, for names that a backend of Config was asked for.
func (p *Postgres) Leftovers(ctx context.Context, prefix string) (left []string, err error) {
	err = AtPostgres(ctx, p.Server, func(conn *pgx.Conn) (err error) {
		p.names.Range(func(name, _ any) bool {
			if !strings.HasPrefix(name.(string), prefix) {
				return true
			}
			var locks, waiters int
			err = conn.QueryRow(ctx, "SELECT (SELECT count(*) "+lockRows+"), (SELECT count(*) "+sideRows+")", []byte(name.(string))).Scan(&locks, &waiters)
			if locks > 0 || waiters > 0 {
				left = append(left, fmt.Sprintf("%s: %d of the lock, %d of who awaits it", name, locks, waiters))
			}
			return err == nil
		})
		return err
	})
	return left, err
}

// noteNames notes the names that b is asked for.
func (p *Postgres) noteNames(b driver.Backend) driver.Backend { return &noting{b, &p.names} }

type noting struct {
	driver.Backend
	names *sync.Map
}

func (n *noting) Unwrap() driver.Backend { return n.Backend }

func (n *noting) TryAcquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	n.names.Store(r.Name, true)
	return n.Backend.TryAcquire(ctx, r)
}

// postgresPooler is a PostgreSQL behind a PgBouncer in session mode.
var postgresPooler = sqlOf("postgres-pgbouncer", "a PostgreSQL behind PgBouncer in session mode", "postgres", []string{"postgres", "pgbouncer"},
	func(ctx context.Context) (Servers, error) {
		server, err := servers.StartPostgres(ctx, servers.PostgresOptions{})
		if err != nil {
			return nil, err
		}
		pooler, err := servers.StartPgBouncer(ctx, servers.PgBouncerOptions{Server: server, Config: []string{
			"default_pool_size = 60", "admin_users = lockport",
			"server_login_retry = 1", // else it waits for 15 s before it connects again to a server that was away
		}})
		if err != nil {
			return nil, errors.Join(err, server.Close())
		}
		p := &PooledPostgres{Pooler: pooler}
		p.absent, p.group, p.Server = absent{"a pooled PostgreSQL"}, group[*servers.Postgres]{server}, server
		return p, nil
	})

// PooledPostgres is a PostgreSQL server behind a PgBouncer.
type PooledPostgres struct {
	Postgres
	Pooler *servers.PgBouncer
}

// Nodes implements Servers: clients reach the pooler.
func (p *PooledPostgres) Nodes() []Node { return nil }

// Addrs implements Servers.
func (p *PooledPostgres) Addrs() []string { return []string{p.Pooler.Addr()} }

// URL implements Servers.
func (p *PooledPostgres) URL(addrs []string) string { return postgresURL(p.Pooler.URL(), addrs) }

// Close implements Servers.
func (p *PooledPostgres) Close() error { return errors.Join(p.Pooler.Close(), p.Postgres.Close()) }

// Log implements Servers.
func (p *PooledPostgres) Log() string { return p.Server.Log() + "--- PgBouncer:\n" + p.Pooler.Log() }

// Heal implements Servers.
func (p *PooledPostgres) Heal(ctx context.Context) error {
	if err := p.Postgres.Heal(ctx); err != nil {
		return err
	}
	if err := Revive(ctx, p.Pooler); err != nil {
		return err
	}
	return p.Set(ctx, "client_idle_timeout", 0)
}

// Set changes a setting of the pooler, in seconds, as its administrator does.
func (p *PooledPostgres) Set(ctx context.Context, name string, d time.Duration) error {
	u, err := url.Parse(p.Pooler.URL())
	if err != nil {
		return err
	}
	u.Path = "/pgbouncer" // its own console
	config, err := pgx.ParseConfig(u.String())
	if err != nil {
		return err
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	return Eventually(ctx, func(ctx context.Context) error {
		conn, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			return err
		}
		_, err = conn.Exec(ctx, fmt.Sprintf("SET %s = %d", name, int(d.Seconds())))
		return errors.Join(err, conn.Close(ctx))
	})
}
