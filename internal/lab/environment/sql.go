package environment

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

// layout is a way to keep locks on a SQL server: by sessions, or in rows.
type layout struct {
	// url makes a lock URL from the server's URL.
	url func(server string) string
	// at returns the locks of a server.
	at func(s *servers.Server) Locks
	// forgets says that the server may be restarted without its data.
	forgets bool
}

func sessionURL(server string) string { return withTTL(server, usualTTL) }

// sessions are locks that belong to sessions with a SQL server.
type sessions struct {
	server *servers.Server
	key    func(name string) any // the server's key of the lock on name
	// SQL: used lists the ids of the sessions that hold the lock with a key, end ends the session with an id, and lock takes the lock with a key.
	used, end, lock string
	leftovers       func(ctx context.Context, prefix string) ([]string, error)
	names           sync.Map // names of requests, if the server's keys do not contain them
}

// Leftovers implements Locks.
func (s *sessions) Leftovers(ctx context.Context, prefix string) ([]string, error) {
	return s.leftovers(ctx, prefix)
}

// Remove ends the sessions that hold the lock on name, and returns when they no longer hold it. A waiter may hold it then.
func (s *sessions) Remove(ctx context.Context, name string) error {
	if err := s.server.Serves(ctx); err != nil {
		return err
	}
	first, err := s.server.Texts(ctx, s.used, s.key(name))
	if err == nil && len(first) == 0 {
		return ErrNotHeld
	}
	for holders := first; err == nil && len(holders) > 0; {
		for _, holder := range holders {
			_, _ = s.server.Admin.ExecContext(ctx, fmt.Sprintf(s.end, holder)) // the session may just have ended
		}
		holders, err = s.server.Texts(ctx, s.used, s.key(name))
		holders = slices.DeleteFunc(holders, func(h string) bool { return !slices.Contains(first, h) })
	}
	return err
}

// Overwrite implements Locks. The foreign session ends with the server.
func (s *sessions) Overwrite(ctx context.Context, name string) error {
	conn, err := s.server.Admin.Conn(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	for got := false; !got; { // a waiter may be quicker
		if err := s.Remove(ctx, name); err != nil && !errors.Is(err, ErrNotHeld) {
			return err
		}
		if err := conn.QueryRowContext(ctx, s.lock, s.key(name)).Scan(&got); err != nil {
			return err
		}
	}
	return nil
}

// record makes open's backends record the names of their requests.
func (s *sessions) record(open func(context.Context, string) (driver.Backend, error)) func(context.Context, string) (driver.Backend, error) {
	return func(ctx context.Context, url string) (driver.Backend, error) {
		b, err := open(ctx, url)
		if err != nil {
			return nil, err
		}
		return &recorder{b, &s.names}, nil
	}
}

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

// rows are locks that are rows of a table.
type rows struct {
	server *servers.Server
	// mark is the placeholder of the only argument. now is SQL for the server's clock in microseconds.
	mark, now string
}

// rowsURL makes a lock URL from a server's URL.
func rowsURL(server string) string { return "table+" + server + "?create=true" }

// Remove implements Locks.
func (r *rows) Remove(ctx context.Context, name string) error {
	if err := r.server.Serves(ctx); err != nil {
		return err
	}
	result, err := r.server.Admin.ExecContext(ctx, "DELETE FROM lockport_locks WHERE name = "+r.mark, name)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, ErrNotHeld)
	}
	return nil
}

// Overwrite implements Locks for a name that has a row.
func (r *rows) Overwrite(ctx context.Context, name string) error {
	_, err := r.server.Admin.ExecContext(ctx, "UPDATE lockport_locks SET owner = 'somebody else', expires = 9000000000000000 WHERE name = "+r.mark, name)
	return err
}

// Leftovers implements Locks. It lists the locks that are held.
func (r *rows) Leftovers(ctx context.Context, prefix string) ([]string, error) {
	all, err := r.server.Texts(ctx, "SELECT name FROM lockport_locks WHERE owner <> '' AND expires > "+r.now)
	return slices.DeleteFunc(all, func(name string) bool { return !strings.HasPrefix(name, prefix) }), err
}

// SQL is one SQL server, at times behind a pooler.
type SQL struct {
	base
	Locks
	Server *servers.Server
	// DSN is what database/sql needs to connect to Server as the user of the locks.
	DSN string
}

// sqlOf arranges nodes. Clients connect to the first.
func sqlOf(l layout, s *servers.Server, dsn string, nodes ...*servers.Server) *SQL {
	q := &SQL{baseOf(func() string { return l.url(nodes[0].URL()) }, servers.SetOf(nodes...)), l.at(s), s, dsn}
	q.restarts, q.forgets = true, l.forgets
	return q
}

func startPostgres(l layout) starter {
	return starts(servers.StartPostgres, servers.PostgresOptions{Clock: true}, func(s *servers.Postgres) *SQL {
		return sqlOf(l, s.Server, s.URL(), s.Server)
	})
}

// pooled starts a PostgreSQL server behind a PgBouncer in a mode, with size connections to the server.
func pooled(mode string, size int, l layout) starter {
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
		return sqlOf(l, s.Server, s.URL(), pooler, s.Server), nil
	}
}

// advisoryKey returns the key of an advisory lock: the beginning of a hash, by the layout on the backend's page.
func advisoryKey(parts ...any) int64 {
	sum := sha256.Sum256([]byte(fmt.Sprint(parts...)))
	return int64(binary.BigEndian.Uint64(sum[:]))
}

// SQL for the keys of advisory locks, and for the rows of the lock with the key $1.
const (
	advisoryKeys = "(classid::bigint << 32 | objid::bigint)"
	advisoryLock = "FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND " + advisoryKeys + " = $1"
)

// kept returns what Postgres may keep for the lock on name: its rows, as postgresSessions lists them, and what they are. It has the first permits.
func kept(name string) map[string]string {
	key := advisoryKey("lockport:", name)
	rows := map[string]string{fmt.Sprint(key, "/1"): "the lock", fmt.Sprint(advisoryKey("lockport.side:", key), "/2"): "a waiter"}
	for n := 1; n <= 8; n++ {
		rows[fmt.Sprint(advisoryKey("lockport.permit:", advisoryKey("lockport.permit:", key, ":0"), ":", n), "/1")] = "a permit"
	}
	return rows
}

var postgresSessions = layout{url: sessionURL, at: func(server *servers.Server) Locks {
	s := &sessions{
		server: server, key: func(name string) any { return advisoryKey("lockport:", name) },
		used: "SELECT pid::text " + advisoryLock + " AND granted", end: "SELECT pg_terminate_backend(%s, 5000)", lock: "SELECT pg_try_advisory_lock($1)",
	}
	s.leftovers = func(ctx context.Context, prefix string) (left []string, err error) { // for the names that Config's backends were asked for
		rows, err := server.Texts(ctx, "SELECT "+advisoryKeys+" || '/' || objsubid FROM pg_locks WHERE locktype = 'advisory'")
		for name := range s.names.Range {
			for row, what := range kept(name.(string)) {
				if strings.HasPrefix(name.(string), prefix) && slices.Contains(rows, row) {
					left = append(left, fmt.Sprint(name, ": ", what))
				}
			}
		}
		return left, err
	}
	return s
}}

var postgresRows = layout{
	url: func(server string) string { return rowsURL(server) + "&sslmode=disable" }, // otherwise the driver connects twice, first with TLS
	at: func(s *servers.Server) Locks {
		return &rows{s, "$1", "extract(epoch FROM clock_timestamp()) * 1000000"}
	},
}

// startMySQL starts a MariaDB or MySQL that accepts this many clients.
func startMySQL(clients string, l layout) starter {
	o := servers.MariaDBOptions{Config: []string{"max_connections=" + clients}}
	return starts(servers.StartMariaDB, o, func(s *servers.MariaDB) *SQL { return sqlOf(l, s.Server, s.DSN(), s.Server) })
}

var mySQLSessions = layout{url: sessionURL, forgets: true, at: func(s *servers.Server) Locks {
	return &sessions{
		server: s, key: func(name string) any { return fmt.Sprintf("%x", sha256.Sum256([]byte("lockport:"+name))) },
		used: "SELECT id FROM (SELECT IS_USED_LOCK(?) AS id) AS used WHERE id IS NOT NULL", end: "KILL %s", lock: "SELECT GET_LOCK(?, 5)",
		leftovers: func(ctx context.Context, prefix string) ([]string, error) { // locks that are held or awaited
			return s.Texts(ctx, `SELECT CONCAT('held: ', name) FROM lockport_fence WHERE LEFT(name, ?) = ? AND IS_USED_LOCK(id) IS NOT NULL
				UNION ALL SELECT CONCAT('waits: ', name) FROM lockport_fence f
				JOIN information_schema.PROCESSLIST ON INFO LIKE CONCAT('%GET_LOCK(''', f.id, '''%') WHERE LEFT(name, ?) = ?`,
				len(prefix), prefix, len(prefix), prefix)
		},
	}
}}

var mySQLRows = layout{url: rowsURL, at: func(s *servers.Server) Locks { return &rows{s, "?", "UNIX_TIMESTAMP() * 1000000"} }}
