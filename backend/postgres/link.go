package postgres

import (
	"context"
	"crypto/tls"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
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
		_ = c.Close(expired)          // so that a pgxpool.Pool behind the DB does not keep it
		_ = c.PgConn().Conn().Close() // pgx may still be closing it
		return sqldriver.ErrBadConn
	})
	_ = l.db.Close()
}

// maxConnect bounds ConnectTimeout, which pgx grants to each address: after a silent address, the next one has the rest of session.MaxDial. With several
// hosts it is maxConnectOfSeveral, which a distant server needs.
const maxConnect, maxConnectOfSeveral = session.MaxDial - time.Second, time.Second

// openDB makes a DB of a configuration. The hooks may be nil.
func openDB(config *pgx.ConnConfig, before func(context.Context, *pgx.ConnConfig) error, after func(context.Context, *pgx.Conn) error) *sql.DB {
	return stdlib.OpenDB(*config, stdlib.OptionBeforeConnect(func(ctx context.Context, config *pgx.ConnConfig) error {
		*config = *config.Copy()
		if before != nil {
			if err := before(ctx, config); err != nil {
				return err
			}
		}
		limit := maxConnect
		if slices.ContainsFunc(config.Fallbacks, func(f *pgconn.FallbackConfig) bool { return f.Host != config.Host || f.Port != config.Port }) {
			limit = maxConnectOfSeveral
		}
		if t := config.ConnectTimeout; t <= 0 || t > limit {
			config.ConnectTimeout = limit
		}
		dial := config.DialFunc
		config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			socket, err := dial(ctx, network, addr)
			if err == nil {
				if err = checkDeadlines(socket); err != nil {
					_ = socket.Close()
				}
			}
			return socket, err
		}
		config.OnNotification = nil // so that pgx keeps notifications for WaitForNotification
		config.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
			return &pgconn.DeadlineContextWatcherHandler{Conn: c.Conn()} // a session ends without waiting for the server to cancel its statement
		}
		return nil
	}), stdlib.OptionAfterConnect(func(ctx context.Context, c *pgx.Conn) (err error) {
		if after != nil {
			if err = after(ctx, c); err != nil {
				_ = c.Close(ctx)
			}
		}
		return err
	}))
}

var errNoDeadlines = fmt.Errorf("%w: the connections of your DialFunc have no deadlines: use ones that do, such as to a forwarded local port", driver.ErrRefused)

func checkDeadlines(socket net.Conn) error {
	if err := socket.SetDeadline(time.Time{}); err != nil && !errors.Is(err, net.ErrClosed) {
		return errNoDeadlines
	}
	return nil
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
