package postgres

import (
	"context"
	"crypto/tls"
	"database/sql"
	sqldriver "database/sql/driver"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/session"
)

// link is a connection of a sql.DB: the caller's, or one that openDB made. One goroutine at a time uses it.
type link struct{ db *sql.Conn }

// use runs f with the connection.
func (l link) use(f func(c *pgx.Conn) error) error {
	return l.db.Raw(func(c any) error {
		std, ok := c.(*stdlib.Conn)
		if !ok {
			return notPgx(c)
		}
		return f(std.Conn())
	})
}

// waitForNotification is c's own, except that a read deadline ends it. The caller's ContextWatcherHandler may send a cancel request instead, and wait
// for the answer of a server that has nothing to cancel.
func waitForNotification(ctx context.Context, c *pgx.Conn) (*pgconn.Notification, error) {
	socket, interrupted := c.PgConn().Conn(), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = socket.SetReadDeadline(time.Now())
		close(interrupted)
	})
	n, err := c.WaitForNotification(context.Background())
	if !stop() {
		<-interrupted
		_ = socket.SetReadDeadline(time.Time{})
	}
	return n, err
}

// close closes the connection at once, and lets its DB forget it.
func (l link) close() {
	_ = l.use(func(c *pgx.Conn) error {
		_ = c.Close(expired)
		_ = c.PgConn().Conn().Close() // pgx may still be closing it
		return sqldriver.ErrBadConn
	})
	_ = l.db.Close()
}

// poolDB makes a DB whose connections are like those of pool: with its configuration (tracer, TLS, DialFunc …) and its hooks. It takes none from the
// pool: the goroutine with the last one may be waiting for a lock.
func poolDB(pool *pgxpool.Pool) *sql.DB {
	config := pool.Config()
	return openDB(config.ConnConfig, config.BeforeConnect, config.AfterConnect)
}

// openDB makes a DB of a configuration. The hooks may be nil.
func openDB(config *pgx.ConnConfig, before func(context.Context, *pgx.ConnConfig) error, after func(context.Context, *pgx.Conn) error) *sql.DB {
	return stdlib.OpenDB(*config, stdlib.OptionBeforeConnect(func(ctx context.Context, config *pgx.ConnConfig) (err error) {
		*config = *config.Copy()
		if before != nil {
			err = before(ctx, config)
		}
		config.ConnectTimeout = perHost(config)
		config.OnNotification = nil // so that pgx keeps notifications for WaitForNotification
		config.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
			return &pgconn.DeadlineContextWatcherHandler{Conn: c.Conn()} // a session ends without waiting for the server to cancel its statement
		}
		return err
	}), stdlib.OptionAfterConnect(func(ctx context.Context, c *pgx.Conn) (err error) {
		if after != nil {
			err = after(ctx, c)
		}
		if err != nil {
			_ = c.Close(ctx)
		}
		return err
	}))
}

// perHost is the time for connecting to one address. With one address each, all hosts together leave some of the time in which a session opens, so
// a silent host does not use up the time of the hosts after it.
func perHost(config *pgx.ConnConfig) time.Duration {
	hosts := map[string]bool{net.JoinHostPort(config.Host, fmt.Sprint(config.Port)): true}
	for _, f := range config.Fallbacks { // also of the same host, with and without TLS
		hosts[net.JoinHostPort(f.Host, fmt.Sprint(f.Port))] = true
	}
	limit := session.MaxDial * 4 / 5 / time.Duration(len(hosts))
	if t := config.ConnectTimeout; t > 0 && t < limit {
		return t
	}
	return limit
}

func notPgx(what any) error {
	return fmt.Errorf("%w: the sql.DB uses the driver %T, but session locks need pgx's (github.com/jackc/pgx/v5/stdlib), unwrapped: "+
		"open the sql.DB with it, or use New with a *pgxpool.Pool", driver.ErrRefused, what)
}

// keepAlive makes the system end a connection within about the TTL if the peer is gone: while a session waits for a lock, the server is silent.
func keepAlive(socket net.Conn, ttl time.Duration) {
	if wrapped, ok := socket.(*tls.Conn); ok {
		socket = wrapped.NetConn()
	}
	if tcp, ok := socket.(*net.TCPConn); ok {
		// The system counts in seconds. If it refuses, request deadlines still detect a silent server.
		_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: max(ttl/2, time.Second), Interval: max(ttl/6, time.Second), Count: 3})
	}
}
