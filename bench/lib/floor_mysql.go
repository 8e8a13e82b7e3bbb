package lib

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"strings"

	_ "github.com/go-sql-driver/mysql"
)

func init() {
	register(Library{
		Name: "GET_LOCK", Family: "mysql", Kind: Floor, Module: "github.com/go-sql-driver/mysql",
		How:     "GET_LOCK and RELEASE_LOCK, with a connection for each hold and each waiter",
		Renewal: WithServer, Waits: true,
		MostWaiters: 100, WhyMost: "each takes a connection",
		Open: func(_ context.Context, c Config) (Locker, error) { return openNamed(c) },
	})
}

type named struct {
	db    *sql.DB
	conns free[*sql.Conn]
}

func openNamed(c Config) (Locker, error) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return nil, err
	}
	password, _ := u.User.Password()
	// Parameters are put into the text: a statement that is prepared for each call would be two requests.
	dsn := u.User.Username() + ":" + password + "@tcp(" + u.Host + ")/" + strings.TrimPrefix(u.Path, "/") + "?interpolateParams=true"
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		return nil, err
	}
	return &named{db: db}, nil
}

// longest is how many seconds Acquire waits at most: as good as for ever.
const longest = 3600

func (n *named) Acquire(ctx context.Context, name string) (Hold, error) {
	return n.take(ctx, name, longest)
}

func (n *named) Try(ctx context.Context, name string) (Hold, error) { return n.take(ctx, name, 0) }

func (n *named) take(ctx context.Context, name string, seconds int) (Hold, error) {
	conn, err := n.conns.take(func() (*sql.Conn, error) { return n.db.Conn(ctx) })
	if err != nil {
		return nil, err
	}
	var got sql.NullInt64
	if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, ?)", name, seconds).Scan(&got); err != nil {
		return nil, err // the connection may be broken, and is not used again
	}
	if got.Int64 != 1 {
		n.conns.give(conn)
		return nil, ErrHeld
	}
	return &namedHold{n, conn, name}, nil
}

func (n *named) Close() error { return n.db.Close() }

type namedHold struct {
	*named
	conn *sql.Conn
	name string
}

func (h *namedHold) Release(ctx context.Context) error {
	var ok sql.NullInt64
	if err := h.conn.QueryRowContext(ctx, "SELECT RELEASE_LOCK(?)", h.name).Scan(&ok); err != nil {
		return err
	}
	h.conns.give(h.conn)
	if ok.Int64 != 1 {
		return errors.New("it was not held")
	}
	return nil
}
