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
)

// link is a pgx connection made as the caller's client makes them: with its tracer, TLS and hooks. One goroutine at a time uses it.
type link struct {
	conn *pgx.Conn // nil: the connection is db's
	db   *sql.Conn
}

// use runs f with the connection.
func (l *link) use(f func(c *pgx.Conn) error) error {
	if l.db == nil {
		return f(l.conn)
	}
	return l.db.Raw(func(c any) error {
		std, ok := c.(*stdlib.Conn)
		if !ok {
			return notPgx(c)
		}
		return f(std.Conn())
	})
}

// close closes the connection at once. If it is from a sql.DB, that forgets it.
func (l *link) close() {
	_ = l.use(func(c *pgx.Conn) error {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = c.Close(ended)
		_ = c.PgConn().Conn().Close() // pgx may still be closing it
		return sqldriver.ErrBadConn
	})
	if l.db != nil {
		_ = l.db.Close()
	}
}

// opener opens connections.
type opener func(ctx context.Context) (*link, error)

// fromPool opens connections with the pool's configuration, and calls its hooks BeforeConnect and AfterConnect. It takes none from the pool: the
// goroutine with the last one may be waiting for a lock.
func fromPool(pool *pgxpool.Pool) opener {
	return func(ctx context.Context) (*link, error) {
		config := pool.Config() // a copy
		if config.BeforeConnect != nil {
			if err := config.BeforeConnect(ctx, config.ConnConfig); err != nil {
				return nil, err
			}
		}
		l, err := connect(ctx, config.ConnConfig)
		if err == nil && config.AfterConnect != nil {
			if err = config.AfterConnect(ctx, l.conn); err != nil {
				l.close()
			}
		}
		return l, err
	}
}

// connect opens a connection outside any pool.
func connect(ctx context.Context, config *pgx.ConnConfig) (*link, error) {
	config.OnNotification = nil // so that pgx keeps notifications for WaitForNotification
	config.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.DeadlineContextWatcherHandler{Conn: c.Conn()} // the end of Listen must not cancel the next request
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return &link{conn: conn}, nil
}

// fromDB takes connections from db.
func fromDB(db *sql.DB) opener {
	return func(ctx context.Context) (*link, error) {
		c, err := db.Conn(ctx)
		if err != nil {
			return nil, err
		}
		l := &link{db: c}
		if err := l.use(func(*pgx.Conn) error { return nil }); err != nil {
			_ = c.Close()
			return nil, err
		}
		return l, nil
	}
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
