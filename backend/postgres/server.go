package postgres

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/session"
)

// minVersion is the first one with idle_session_timeout and client_connection_check_interval.
const minVersion = 14

// server opens sessions. It implements session.Server.
type server struct {
	open   opener
	ttl    time.Duration
	tokens tokens

	used, limit atomic.Int64 // of our locks in the server's table; the limit is 0 before the first session
	primary     atomic.Bool  // it was one when we last looked
	single      atomic.Bool  // a pooler is in between that leaves sessions whole
}

// facts are what the server says at the beginning of a session.
type facts struct {
	pid, began int64
	recovering bool
	slots      int64 // of the lock table
	version    int
}

// Dial implements session.Server.
func (s *server) Dial(ctx context.Context, label string, e session.Events) (session.Conn, error) {
	c, err := s.dial(ctx, label, e)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (s *server) dial(ctx context.Context, label string, e session.Events) (*conn, error) {
	l, f, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	c := &conn{
		server: s, events: e, link: l, pid: f.pid, id: fmt.Sprintf("%d/%d", f.pid, f.began),
		statements: newStatements(s.tokens.draw()), prepared: make(map[string]bool), awaited: make(map[session.Key]bool),
	}
	err = l.use(func(p *pgx.Conn) error {
		keepAlive(p.PgConn().Conn(), s.ttl)
		return s.setUp(ctx, p, f, label)
	})
	if err != nil {
		l.close()
		return nil, classify(err)
	}
	s.limit.Store(max(f.slots/2, 1))
	return c, nil
}

// connect opens a connection to a server on which locks can be held.
func (s *server) connect(ctx context.Context) (*link, facts, error) {
	l, err := s.open(ctx)
	if err != nil {
		return nil, facts{}, classify(err)
	}
	var f facts
	err = l.use(func(c *pgx.Conn) (err error) {
		if f, err = s.look(ctx, c); err == nil && uint32(f.pid) != c.PgConn().PID() {
			err = s.checkPooler(ctx, c, f.pid)
		}
		return err
	})
	if err != nil {
		l.close()
		return nil, facts{}, classify(err)
	}
	return l, f, nil
}

// look asks the server what it is.
func (s *server) look(ctx context.Context, c *pgx.Conn) (f facts, err error) {
	version := c.PgConn().ParameterStatus("server_version")
	if f.version = majorVersion(version); f.version < minVersion {
		return f, fmt.Errorf("%w: the server is PostgreSQL %s, but %d or newer is needed", driver.ErrRefused, version, minVersion)
	}
	err = c.QueryRow(ctx, `SELECT pid::bigint, (extract(epoch FROM backend_start) * 1000000)::bigint, pg_is_in_recovery(),
		current_setting('max_locks_per_transaction')::bigint *
			(current_setting('max_connections')::bigint + current_setting('max_prepared_transactions')::bigint)
		FROM pg_stat_get_activity(pg_backend_pid())`, once).
		Scan(&f.pid, &f.began, &f.recovering, &f.slots)
	if err != nil {
		return f, err
	}
	if f.recovering {
		const text = "the server is a read-only replica, on which locks exclude nobody elsewhere: connect to the primary"
		if s.primary.Load() { // a fail-over is under way, perhaps
			return f, fmt.Errorf("%w: %s", driver.ErrUnavailable, text)
		}
		return f, fmt.Errorf("%w: %s", driver.ErrRefused, text)
	}
	s.primary.Store(true)
	return f, nil
}

// once is how a query is made that is not made again: it is not prepared.
const once = pgx.QueryExecModeExec

// run carries out statements, with semicolons between them.
func run(ctx context.Context, c *pgx.Conn, sql string) error {
	_, err := c.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
	return err
}

// majorVersion is the number that server_version begins with: "15.18 (Debian…)", "17beta1".
func majorVersion(text string) int {
	end := 0
	for end < len(text) && text[end] >= '0' && text[end] <= '9' {
		end++
	}
	n, _ := strconv.Atoi(text[:end])
	return n
}

// room says for how many of n more locks there is room in the server's table, and what is wrong if that is not all: ours may fill half of it, since
// where it is full nobody can connect.
func (s *server) room(n int) (int, error) {
	used, limit := s.used.Load(), s.limit.Load()
	if limit == 0 || used+int64(n) <= limit {
		return n, nil
	}
	return int(max(limit-used, 0)), fmt.Errorf("%w: this client has %d locks, half of what the server's lock table holds: raise max_locks_per_transaction",
		driver.ErrUnavailable, used)
}
