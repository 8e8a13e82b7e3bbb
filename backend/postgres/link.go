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

// link is a connection of pgx, as the caller's client makes them: with its tracer, TLS and hooks. One goroutine at a time uses it.
type link struct {
	conn *pgx.Conn // nil: of db
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

// close closes the connection at once, also one of a sql.DB, which forgets it.
func (l *link) close() {
	_ = l.use(func(c *pgx.Conn) error {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = c.Close(ended)
		_ = c.PgConn().Conn().Close() // pgx may be closing it in its own time
		return sqldriver.ErrBadConn
	})
	if l.db != nil {
		_ = l.db.Close()
	}
}

// opener opens connections.
type opener func(ctx context.Context) (*link, error)

// fromPool opens connections of the pool's configuration, and calls its hooks BeforeConnect and AfterConnect. It takes none from the pool: whoever has taken
// its last connection may be waiting for a lock.
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

// connect opens a connection of our own.
func connect(ctx context.Context, config *pgx.ConnConfig) (*link, error) {
	config.OnNotification = nil // pgx keeps notifications for WaitForNotification
	config.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.DeadlineContextWatcherHandler{Conn: c.Conn()} // the end of listening is not to cancel what is asked next
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return &link{conn: conn}, nil
}

// fromDB takes connections out of db.
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
	return fmt.Errorf("%w: the sql.DB has the driver of %T, but session locks need that of pgx (github.com/jackc/pgx/v5/stdlib), not wrapped: "+
		"open the sql.DB with it, or use New with a *pgxpool.Pool", driver.ErrRefused, what)
}

// keepAlive has the system end a connection whose other side is gone within about the TTL: while a session waits for a lock, the server says nothing.
func keepAlive(socket net.Conn, ttl time.Duration) {
	if wrapped, ok := socket.(*tls.Conn); ok {
		socket = wrapped.NetConn()
	}
	if tcp, ok := socket.(*net.TCPConn); ok {
		// The system counts in seconds. If it refuses, the silence of the server is still noticed, by the deadlines of requests.
		_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: max(ttl/2, time.Second), Interval: max(ttl/6, time.Second), Count: 3})
	}
}
