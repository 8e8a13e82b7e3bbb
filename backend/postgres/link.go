package postgres

import (
	"context"
	"crypto/tls"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
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

// openDB makes a DB of a configuration. The hooks may be nil.
func openDB(config *pgx.ConnConfig, before func(context.Context, *pgx.ConnConfig) error, after func(context.Context, *pgx.Conn) error) *sql.DB {
	return stdlib.OpenDB(*config, stdlib.OptionBeforeConnect(func(ctx context.Context, config *pgx.ConnConfig) error {
		*config = *config.Copy()
		if before != nil {
			if err := before(ctx, config); err != nil {
				return err
			}
		}
		config.LookupFunc = remembered(config.LookupFunc)
		shareTime(ctx, config)
		config.DialFunc = guarded(config.DialFunc)
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

// shareTime limits ConnectTimeout, which pgx grants to each address. Those of all hosts but the last leave some of the time in which a session opens,
// so a silent host does not use up the time of the hosts after it. With many addresses each has a second, which a distant server needs.
func shareTime(ctx context.Context, config *pgx.ConnConfig) {
	hosts := append([]*pgconn.FallbackConfig{{Host: config.Host, Port: config.Port}}, config.Fallbacks...) // each with TLS, without, or both
	key := func(h *pgconn.FallbackConfig) string { return net.JoinHostPort(h.Host, fmt.Sprint(h.Port)) }
	grants, counted := 1, map[string]bool{key(hosts[len(hosts)-1]): true}
	for _, h := range hosts {
		if counted[key(h)] {
			continue
		}
		counted[key(h)] = true
		var addresses []string // of a socket, or of a host that pgx does not find either: none
		if !strings.HasPrefix(h.Host, "/") {
			addresses, _ = config.LookupFunc(ctx, h.Host)
		}
		grants += max(len(addresses), 1)
	}
	limit := session.MaxDial * 4 / 5 / time.Duration(min(grants, 4))
	if t := config.ConnectTimeout; t <= 0 || t > limit {
		config.ConnectTimeout = limit
	}
}

// remembered looks each host up once.
func remembered(lookup pgconn.LookupFunc) pgconn.LookupFunc {
	known := make(map[string]func() ([]string, error))
	return func(ctx context.Context, host string) ([]string, error) {
		if known[host] == nil {
			known[host] = sync.OnceValues(func() ([]string, error) { return lookup(ctx, host) })
		}
		return known[host]()
	}
}

// guarded wraps the DialFunc of one connection. It does not try an address without TLS that was silent with TLS: if the host has several addresses,
// pgx grants the time again. It refuses connections that nothing can interrupt, before pgx logs in.
func guarded(dial pgconn.DialFunc) pgconn.DialFunc {
	var mu sync.Mutex
	var lastAddr string
	var last context.Context // of the attempt at lastAddr; if it has expired when the next attempt begins, the address was silent
	silent := make(map[string]bool)
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		mu.Lock()
		if last != nil && last.Err() == context.DeadlineExceeded {
			silent[lastAddr] = true
		}
		lastAddr, last = addr, ctx
		skip := silent[addr]
		mu.Unlock()
		if skip {
			return nil, context.DeadlineExceeded
		}
		socket, err := dial(ctx, network, addr)
		if err == nil {
			if err = checkDeadlines(socket); err != nil {
				_ = socket.Close()
			}
		}
		return socket, err
	}
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
