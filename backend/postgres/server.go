package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/session"
)

// minVersion is the first version with idle_session_timeout and client_connection_check_interval.
const minVersion = 14

// server opens sessions.
type server struct {
	db     *sql.DB
	ttl    time.Duration
	layout session.Layout
	tokens tokens
	most   int // connections of this client

	limit         atomic.Int64 // half the size of the lock table; 0 before the first connection
	wholeSessions atomic.Bool  // the connection goes through a pooler in session mode
	notPgpool     atomic.Bool  // see refusePgpool
}

// dial is session.Options.Dial.
func (s *server) dial(ctx context.Context, label string, e session.Events) (_ session.Conn, err error) {
	c := &conn{
		server: s, events: e, marker: rand.Int64(),
		statements: newStatements(s.tokens.draw()), prepared: make(map[string]bool), shares: make(map[session.Key]int),
	}
	c.link, err = s.connect(ctx, func(p *pgx.Conn, pid int64) error {
		c.pid = pid
		keepAlive(p.PgConn().Conn(), s.ttl)
		return s.setUp(ctx, p, label, c.marker)
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// withConn runs f with a connection of its own to a server that can hold locks.
func (s *server) withConn(ctx context.Context, f func(c *pgx.Conn) error) error {
	l, err := s.connect(ctx, func(c *pgx.Conn, _ int64) error { return f(c) })
	if err == nil {
		l.close()
	}
	return err
}

// connect opens a connection to a server that can hold locks, and calls f with it and the server's process. After an error it is closed.
func (s *server) connect(ctx context.Context, f func(c *pgx.Conn, pid int64) error) (link, error) {
	return s.open(ctx, func(c *pgx.Conn) error {
		pid, err := s.examine(ctx, c)
		if err == nil && uint32(pid) != c.PgConn().PID() {
			err = s.checkPooler(ctx, c, pid)
		}
		if err != nil {
			return err
		}
		return f(c, pid)
	})
}

// open opens a connection, ends a transaction that the connection's earlier user left open, and calls f. After an error the connection is closed.
func (s *server) open(ctx context.Context, f func(c *pgx.Conn) error) (l link, err error) {
	if l.db, err = s.db.Conn(ctx); err != nil {
		return l, classify(err)
	}
	err = l.use(func(c *pgx.Conn) error {
		err := checkDeadlines(c.PgConn().Conn())
		if err == nil && c.PgConn().TxStatus() != 'I' {
			err = run(ctx, c, "ROLLBACK")
		}
		if err != nil {
			return err
		}
		return f(c)
	})
	if err != nil {
		l.close()
	}
	return l, classify(err)
}

// examine refuses servers that cannot hold locks. It notes the size of the lock table, and returns the server's process.
func (s *server) examine(ctx context.Context, c *pgx.Conn) (pid int64, err error) {
	if c.PgConn().ParameterStatus("crdb_version") != "" {
		return 0, fmt.Errorf("%w: the server is CockroachDB, whose advisory locks exclude nobody; use another lock server", driver.ErrRefused)
	}
	var recovering bool
	var version, port int
	var slots int64
	err = c.QueryRow(ctx, `SELECT pg_is_in_recovery(), pg_backend_pid()::bigint,
		current_setting('max_locks_per_transaction')::bigint *
			(current_setting('max_connections')::bigint + current_setting('max_prepared_transactions')::bigint),
		current_setting('server_version_num')::int / 10000, coalesce(inet_client_port(), 0)`, once).
		Scan(&recovering, &pid, &slots, &version, &port)
	if err == nil {
		err = s.refusePgpool(ctx, c, port)
	}
	switch {
	case err != nil:
		return 0, err
	case version < minVersion:
		return 0, fmt.Errorf("%w: the server is PostgreSQL %d, but %d or newer is needed", driver.ErrRefused, version, minVersion)
	case recovering:
		return 0, session.ErrReadOnly
	}
	s.limit.Store(max(slots/2, 1))
	return pid, nil
}

// refusePgpool asks only if the server's peer has another port than c, because the server logs the question as an error. Pgpool-II answers it itself.
func (s *server) refusePgpool(ctx context.Context, c *pgx.Conn, port int) error {
	local := 0 // as the server reports it for a Unix socket
	if addr, ok := c.PgConn().Conn().LocalAddr().(*net.TCPAddr); ok {
		local = addr.Port
	}
	if local == port || s.notPgpool.Load() {
		return nil
	}
	err := run(ctx, c, "SHOW pool_version")
	if err == nil {
		return fmt.Errorf("%w: %s", driver.ErrRefused, pgpoolText)
	}
	if _, ok := errors.AsType[*pgconn.PgError](err); !ok {
		return err
	}
	s.notPgpool.Store(true)
	return nil
}

// once is the mode of queries that run once: not prepared.
const once = pgx.QueryExecModeExec

// run executes statements separated by semicolons.
func run(ctx context.Context, c *pgx.Conn, sql string) error {
	_, err := c.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
	return err
}

// checkPooler probes a pooler in between, whose process id for the session is not the server's. A pooler that shares sessions between transactions
// gives our idle session to another connection's transaction, or swaps it.
func (s *server) checkPooler(ctx context.Context, c *pgx.Conn, pid int64) error {
	if s.wholeSessions.Load() {
		return nil
	}
	other, err := s.open(ctx, func(o *pgx.Conn) error {
		defer func() { // a pooler ends a session whose client vanishes in a transaction, with the locks of others
			if o.PgConn().TxStatus() != 'I' {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
				defer cancel()
				_ = run(ctx, o, "ROLLBACK")
			}
		}()
		for range 3 {
			if err := run(ctx, o, "BEGIN"); err != nil {
				return err
			}
			if theirs, err := processOf(ctx, o); err != nil || theirs == pid { // c would wait for the end of the transaction
				return cmp.Or(err, errSharing)
			}
			// After the commit, the session of o is the next to be given out, if it is not o's own.
			if err := cmp.Or(checkProcess(ctx, c, pid), run(ctx, o, "COMMIT"), checkProcess(ctx, c, pid)); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		other.close()
		s.wholeSessions.Store(true)
	}
	return err
}

// checkProcess checks that c is still served by the process pid.
func checkProcess(ctx context.Context, c *pgx.Conn, pid int64) error {
	if now, err := processOf(ctx, c); err != nil || now != pid {
		return cmp.Or(err, errSharing)
	}
	return nil
}

var errSharing = fmt.Errorf("%w: %s", driver.ErrRefused, poolerText)

// processOf returns the process that serves c.
func processOf(ctx context.Context, c *pgx.Conn) (pid int64, err error) {
	err = c.QueryRow(ctx, "SELECT pg_backend_pid()::bigint", once).Scan(&pid)
	return pid, err
}

// sideLockTimeout bounds how long a session waits for a side lock. A release holds it for one statement.
const sideLockTimeout = 100 * time.Millisecond

// waitLockTimeout is how long one statement waits in the server's queue before it is repeated: a running statement keeps vacuum from removing
// what was deleted since it began.
const waitLockTimeout = time.Minute

// setUp makes c a session for locks. It releases the locks of the connection's earlier user, which this session would share. The side lock of marker
// identifies the session: a pooler may give its process to another client, but only after it has released all locks. The setting sessionSetting
// identifies it to its own statements. If another client's is there, a pooler shares the session: an error.
func (s *server) setUp(ctx context.Context, c *pgx.Conn, label string, marker int64) error {
	var sql strings.Builder
	hi, lo := side(marker)
	fmt.Fprintf(&sql, "SELECT %s, pg_advisory_lock(%d, %d), set_config('"+sessionSetting+"', '%d', false), ",
		onSession("''", "pg_advisory_unlock_all() IS NOT NULL"), hi, lo, marker)
	for _, setting := range s.settings(label) {
		fmt.Fprintf(&sql, "set_config(%s, %s, false), ", quote(setting[0]), quote(setting[1]))
	}
	sql.WriteString("CASE WHEN current_setting('server_version_num')::int >= 170000 THEN set_config('transaction_timeout', '0', false) END, ")
	// It ends a waiting session whose client is gone. Outside Linux, at least some versions accept only 0.
	fmt.Fprintf(&sql, "set_config('client_connection_check_interval', CASE WHEN version() LIKE '%%linux%%' THEN '%s' ELSE '0' END, false)",
		milliseconds(max(s.ttl/4, 10*time.Millisecond)))
	sql.WriteString("; LISTEN " + channel)
	if err := run(ctx, c, sql.String()); err != nil {
		return err
	}
	return s.tokens.prepare(ctx, c)
}

// settings override those of the server and the role. The server ends a session that was silent for the TTL, and must not do so before. If the
// network is gone, its keep-alives end a waiting session after more than one and less than two TTLs, or 2 s if that is longer.
func (s *server) settings(label string) [][2]string {
	seconds := func(d time.Duration) string { return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10) }
	return [][2]string{
		{"idle_session_timeout", milliseconds(s.ttl)},
		{"tcp_keepalives_idle", seconds(s.ttl / 2)},
		{"tcp_keepalives_interval", seconds(s.ttl / 6)},
		{"tcp_keepalives_count", "3"},
		{"tcp_user_timeout", milliseconds(s.ttl + s.ttl/4)},
		{"statement_timeout", "0"},
		{"lock_timeout", milliseconds(sideLockTimeout)},
		{"default_transaction_read_only", "off"},
		{"default_transaction_isolation", "read committed"},
		{"synchronous_commit", "off"},
		{"plan_cache_mode", "force_generic_plan"},
		{"client_min_messages", "error"},
		{"application_name", strings.TrimSpace(applicationPrefix + " " + label)}, // the server cuts it to 63 bytes
	}
}

func milliseconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10)
}

// quote returns text as a string literal.
func quote(text string) string {
	return "E'" + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(text) + "'"
}

// applicationPrefix begins every session's application_name.
const applicationPrefix = "lockport"
