package environment

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the administrator's driver

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

var postgresEnvironment = sqlOf("postgres", "one PostgreSQL", "postgres", []string{"postgres"}, func(ctx context.Context) (Servers, error) {
	s, err := servers.StartPostgres(ctx, servers.PostgresOptions{})
	if err != nil {
		return nil, err
	}
	return postgresOf(baseOf("one PostgreSQL", s), s), nil
})

func postgresOf(b base, s *servers.Postgres) *Postgres {
	return &Postgres{base: b, Server: s, Admin: postgresAdmin(s)}
}

func postgresAdmin(s *servers.Postgres) *admin {
	db, _ := sql.Open("pgx", s.AdminURL()) // says what is wrong with the URL when it is used
	return newAdmin(db)
}

// Postgres is one PostgreSQL server.
type Postgres struct {
	base
	Server *servers.Postgres
	// Admin are connections of the administrator.
	Admin *admin
	names sync.Map // that were asked for: the server's keys do not tell them
}

// URL implements Servers.
func (p *Postgres) URL(addrs []string) string { return sqlURL(p.Server.URL(), addrs) }

// Close implements Servers.
func (p *Postgres) Close() error {
	p.Admin.close()
	return p.base.Close()
}

// Heal implements Servers.
func (p *Postgres) Heal(ctx context.Context) error {
	return inOrder(ctx, p.base.Heal, p.Admin.running("ALTER SYSTEM RESET ALL", "SELECT pg_reload_conf()"))
}

// Restart implements Servers.
func (p *Postgres) Restart(ctx context.Context, keepData bool) error {
	if !keepData {
		return p.lacks("nothing is restarted without its data")
	}
	return p.Server.Restart(ctx)
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
	var ended bool
	err := p.Admin.row(ctx, &ended, "SELECT pg_terminate_backend(pid, 5000) "+lockRows+" AND granted", []byte(name))
	if errors.Is(err, sql.ErrNoRows) {
		return ErrNotHeld
	}
	if err == nil && !ended {
		err = errors.New("the session does not end")
	}
	return err
}

// Overwrite implements Servers.
func (p *Postgres) Overwrite(ctx context.Context, name string) error {
	return p.Admin.overwrite(ctx, name, "SELECT pg_try_advisory_lock("+keyOfName+")", []byte(name), p.Remove)
}

// Leftovers implements Servers, for names that a backend of Config was asked for.
func (p *Postgres) Leftovers(ctx context.Context, prefix string) (left []string, err error) {
	p.names.Range(func(key, _ any) bool {
		name := key.(string)
		if !strings.HasPrefix(name, prefix) {
			return true
		}
		var counts string
		err = p.Admin.row(ctx, &counts, "SELECT (SELECT count(*) "+lockRows+") || ' of the lock, ' || (SELECT count(*) "+sideRows+") || ' of its waiters'", []byte(name))
		if counts != "0 of the lock, 0 of its waiters" {
			left = append(left, name+": "+counts)
		}
		return err == nil
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
		s, err := servers.StartPostgres(ctx, servers.PostgresOptions{})
		if err != nil {
			return nil, err
		}
		pooler, err := servers.StartPgBouncer(ctx, servers.PgBouncerOptions{Server: s, Config: []string{
			"default_pool_size = 60", "admin_users = lockport",
			"server_login_retry = 1", // else it waits for 15 s before it connects again to a server that was away
		}})
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		return &PooledPostgres{postgresOf(hiddenOf[server]("a pooled PostgreSQL", pooler, s), s), pooler}, nil
	})

// PooledPostgres is a PostgreSQL server behind a PgBouncer.
type PooledPostgres struct {
	*Postgres
	Pooler *servers.PgBouncer
}

// Addrs implements Servers.
func (p *PooledPostgres) Addrs() []string { return []string{p.Pooler.Addr()} }

// URL implements Servers.
func (p *PooledPostgres) URL(addrs []string) string { return sqlURL(p.Pooler.URL(), addrs) }

// Heal implements Servers.
func (p *PooledPostgres) Heal(ctx context.Context) error {
	return inOrder(ctx, p.Postgres.Heal, func(ctx context.Context) error { return p.Set(ctx, "client_idle_timeout", 0) })
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
