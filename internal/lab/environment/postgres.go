package environment

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"

	_ "github.com/jackc/pgx/v5/stdlib" // the administrator's driver

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

// Postgres is one PostgreSQL server.
type Postgres struct {
	Servers
	Server *servers.Postgres
	// Pooler, if not nil, is between the clients and the server.
	Pooler *servers.PgBouncer
	// Admin opens the administrator's connections.
	Admin *admin
}

func startPostgres(locks layout) starter {
	return func(ctx context.Context) (Servers, error) {
		s, err := servers.StartPostgres(ctx, servers.PostgresOptions{Clock: servers.ClockInstalled() == nil}) // runs a compiler, hence only here
		if err != nil {
			return nil, err
		}
		return postgresOf(baseOf(func() string { return locks.url(s.URL()) }, s.Server), locks, s, nil), nil
	}
}

func postgresOf(b base, locks layout, s *servers.Postgres, pooler *servers.PgBouncer) *Postgres {
	p := &Postgres{Server: s, Pooler: pooler, Admin: postgresAdmin(s)}
	b.reset = p.Admin.ready
	b.halt = (*servers.Server).Stop
	p.Servers = locks.on(sqlBase{b, p.Admin})
	return p
}

func postgresAdmin(s *servers.Postgres) *admin {
	db, _ := sql.Open("pgx", s.AdminURL()) // an error in the URL surfaces on use
	return newAdmin(db)
}

// SQL for the layout on the backend's page, for the name $1: the lock's key, and the rows of the lock, its waiters and its first permits.
const (
	keyOfName = `('x' || encode(substring(sha256('lockport:'::bytea || $1::bytea), 1, 8), 'hex'))::bit(64)::bigint`
	lockRows  = `FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND (classid::bigint << 32 | objid::bigint) = ` + keyOfName
	sideRows  = `FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND (classid::bigint << 32 | objid::bigint) =
		('x' || encode(substring(sha256(convert_to('lockport.side:' || ` + keyOfName + `::text, 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint`
	permitRows = `FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND (classid::bigint << 32 | objid::bigint) IN (
		SELECT ('x' || encode(substring(sha256(convert_to('lockport.permit:' || ('x' || encode(substring(sha256(convert_to(
			'lockport.permit:' || ` + keyOfName + `::text || ':0', 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint::text || ':' || n, 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint
		FROM generate_series(1, 8) AS n)`
)

var postgresSessions = layout{sessionURL, func(b sqlBase) Servers {
	s := &sessions{sqlBase: b, used: "SELECT pid::text " + lockRows + " AND granted",
		end: "SELECT pg_terminate_backend(%s, 5000)", lock: "SELECT pg_try_advisory_lock(" + keyOfName + ")"}
	s.leftovers = func(ctx context.Context, prefix string) (left []string, err error) { // for the names that Config's backends were asked for
		conn, err := b.Admin.Conn(ctx) // one connection for possibly hundreds of names
		if err != nil {
			return nil, err
		}
		defer func() { _ = conn.Close() }()
		for name := range s.names.Range {
			if !strings.HasPrefix(name.(string), prefix) {
				continue
			}
			rows, failed := texts(ctx, conn, "SELECT 'the lock' "+lockRows+" UNION ALL SELECT 'a permit' "+permitRows+" UNION ALL SELECT 'a waiter' "+sideRows, []byte(name.(string)))
			err = errors.Join(err, failed)
			for _, what := range rows {
				left = append(left, fmt.Sprint(name, ": ", what))
			}
		}
		return left, err
	}
	return s
}}

// recorder is a backend that records the names of requests.
type recorder struct {
	driver.Backend
	names *sync.Map
}

// Unwrap implements driver.Unwrapper.
func (r *recorder) Unwrap() driver.Backend { return r.Backend }

// TryAcquire implements driver.Backend.
func (r *recorder) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	r.names.Store(req.Name, true)
	return r.Backend.TryAcquire(ctx, req)
}

// pooled starts a PostgreSQL server behind a PgBouncer in a mode, with size connections to the server.
func pooled(mode string, size int, locks layout) starter {
	return func(ctx context.Context) (Servers, error) {
		s, err := servers.StartPostgres(ctx, servers.PostgresOptions{})
		if err != nil {
			return nil, err
		}
		pooler, err := servers.StartPgBouncer(ctx, servers.PgBouncerOptions{Server: s, Mode: mode, Config: []string{
			fmt.Sprint("default_pool_size = ", size),
			"server_login_retry = 1", // reconnect to a lost server after 1 s, not 15 s
		}})
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		b := baseOf(func() string { return locks.url(pooler.URL()) }, pooler.Server, s.Server)
		b.hidden = true
		return postgresOf(b, locks, s, pooler), nil
	}
}
