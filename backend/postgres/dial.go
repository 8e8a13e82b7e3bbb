package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/session"
)

// minVersion is the first one with idle_session_timeout and client_connection_check_interval.
const minVersion = 14

// server opens sessions. It implements session.Server.
type server struct {
	config     func(ctx context.Context) (*pgconn.Config, error) // for one connection
	ttl        time.Duration
	tokens     tokens
	statements statements

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
	have       objects
}

// Dial implements session.Server.
func (s *server) Dial(ctx context.Context, label string, e session.Events) (session.Conn, error) {
	ended := make(chan error, 2)
	c, err := s.dial(ctx, label, e, func(err error) {
		select {
		case ended <- err:
		default:
		}
	})
	if err != nil {
		return nil, err
	}
	return adapted{session.Adapt(c, ended, c.Close), c}, nil
}

// adapted is a conn as the engine wants it.
type adapted struct {
	session.Adapted
	conn *conn
}

func (a adapted) ID() string             { return a.conn.ID() }
func (a adapted) Silence() time.Duration { return a.conn.Silence() }
func (a adapted) Close()                 { a.conn.Close() }

// dial is Dial. What client libraries do with ctx is their affair: it returns when that ends.
func (s *server) dial(ctx context.Context, label string, e session.Events, ended func(error)) (*conn, error) {
	type dialled struct {
		conn *conn
		err  error
	}
	done := make(chan dialled, 1)
	go func() {
		c, err := s.begin(ctx, label, e, ended)
		done <- dialled{c, err}
	}()
	select {
	case d := <-done:
		return d.conn, d.err
	case <-ctx.Done():
		go func() {
			if d := <-done; d.conn != nil {
				d.conn.Close()
			}
		}()
		return nil, fmt.Errorf("%w: no session with the server yet: %w", driver.ErrUnavailable, context.Cause(ctx))
	}
}

// begin opens a session and sets it up.
func (s *server) begin(ctx context.Context, label string, e session.Events, ended func(error)) (*conn, error) {
	raw, f, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.setUp(ctx, raw, f, label); err != nil {
		closeRaw(raw)
		return nil, classify(err)
	}
	hijacked, err := hijack(ctx, raw)
	if err != nil {
		closeRaw(raw)
		return nil, classify(err)
	}
	keepAlive(hijacked.Conn, s.ttl)
	s.limit.Store(max(f.slots/2, 1))
	c := &conn{
		server:  s,
		events:  e,
		ended:   ended,
		socket:  hijacked.Conn,
		front:   pgproto3.NewFrontend(hijacked.Conn, hijacked.Conn),
		pid:     f.pid,
		id:      fmt.Sprintf("%d/%d", f.pid, f.began),
		held:    make(map[session.Key]bool),
		awaited: make(map[session.Key]bool),
		seen:    make(map[session.Key]bool),
	}
	c.line.Init(session.LineOptions{Socket: c.socket, Receive: c.receive, Stays: c.stays, End: c.end})
	c.line.Begin()
	return c, nil
}

// keepAlive has the system end a connection whose other side is gone within about the TTL: while a session waits for a lock, the server says nothing.
func keepAlive(socket net.Conn, ttl time.Duration) {
	if wrapped, ok := socket.(interface{ NetConn() net.Conn }); ok { // TLS
		socket = wrapped.NetConn()
	}
	if tcp, ok := socket.(*net.TCPConn); ok {
		// The system counts in seconds. If it refuses, the silence of the server is still noticed: see conn.overdue.
		_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: max(ttl/2, time.Second), Interval: max(ttl/6, time.Second), Count: 3})
	}
}

// connect opens a connection to a server on which locks can be held.
func (s *server) connect(ctx context.Context) (*pgconn.PgConn, facts, error) {
	config, err := s.config(ctx)
	if err != nil {
		return nil, facts{}, classify(err)
	}
	raw, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, facts{}, classify(err)
	}
	f, err := s.look(ctx, raw)
	if err == nil && uint32(f.pid) != raw.PID() {
		err = s.checkPooler(ctx, raw, f.pid)
	}
	if err != nil {
		closeRaw(raw)
		return nil, facts{}, classify(err)
	}
	return raw, f, nil
}

// look asks the server what it is.
func (s *server) look(ctx context.Context, raw *pgconn.PgConn) (f facts, err error) {
	f.version = majorVersion(raw.ParameterStatus("server_version"))
	if f.version < minVersion {
		return f, fmt.Errorf("%w: the server is PostgreSQL %s, but %d or newer is needed", driver.ErrRefused, raw.ParameterStatus("server_version"), minVersion)
	}
	row, err := queryRow(ctx, raw, `SELECT pid, (extract(epoch FROM backend_start) * 1000000)::bigint, pg_is_in_recovery()::int,
		current_setting('max_locks_per_transaction')::bigint *
			(current_setting('max_connections')::bigint + current_setting('max_prepared_transactions')::bigint),
		`+s.tokens.columns()+` FROM pg_stat_get_activity(pg_backend_pid())`, 6)
	if err != nil {
		return f, err
	}
	f.pid, f.began, f.recovering, f.slots = row[0], row[1], row[2] != 0, row[3]
	f.have = objects{sequence: row[4] != 0, epoch: row[5] != 0}
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

// majorVersion is the number that server_version begins with: "15.18 (Debian…)", "17beta1".
func majorVersion(text string) int {
	end := 0
	for end < len(text) && text[end] >= '0' && text[end] <= '9' {
		end++
	}
	n, _ := strconv.Atoi(text[:end])
	return n
}

// queryRow asks for one row of n numbers, in the simple protocol: a pooler may know no other.
func queryRow(ctx context.Context, raw *pgconn.PgConn, sql string, n int) ([]int64, error) {
	results, err := raw.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(results) != 1 || len(results[0].Rows) != 1 || len(results[0].Rows[0]) != n {
		return nil, errors.New("the server answered something else than was asked")
	}
	row := make([]int64, n)
	for i, column := range results[0].Rows[0] {
		if row[i], err = strconv.ParseInt(string(column), 10, 64); err != nil {
			return nil, err
		}
	}
	return row, nil
}

// hijack takes the connection out of pgx's hands.
func hijack(ctx context.Context, raw *pgconn.PgConn) (*pgconn.HijackedConn, error) {
	if err := raw.SyncConn(ctx); err != nil {
		return nil, err
	}
	hijacked, err := raw.Hijack()
	if err != nil {
		return nil, err
	}
	if err := hijacked.Conn.SetDeadline(time.Time{}); err != nil {
		_ = hijacked.Conn.Close()
		return nil, err
	}
	return hijacked, nil
}

// closeRaw closes a connection at once.
func closeRaw(raw *pgconn.PgConn) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = raw.Close(ended)
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
