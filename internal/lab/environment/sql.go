package environment

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"
)

// sessionTTL is that of the backends whose locks belong to a session with a SQL server.
const sessionTTL = 2 * time.Second

func sqlOf(name, title, backend string, needs []string, start func(ctx context.Context) (Servers, error)) Environment {
	return Environment{
		Name: name, Title: title, Backend: backend, TTL: sessionTTL, Margin: marginOf(sessionTTL), Sessions: true, Tokens: true,
		RemovalNotice: 100 * time.Millisecond, Needs: needs, Start: start,
	}
}

// sqlURL is the server's own URL with other addresses and our TTL.
func sqlURL(server string, addrs []string) string {
	u, _ := url.Parse(server)
	u.Host, u.RawQuery = strings.Join(addrs, ","), "ttl="+sessionTTL.String()
	return u.String()
}

// admin are connections of a server's administrator, each new: the server may have been killed since the last.
type admin struct {
	*sql.DB

	mu      sync.Mutex
	foreign []*sql.Conn // those of somebody else, who took a lock's place
}

func newAdmin(db *sql.DB) *admin {
	db.SetMaxIdleConns(-1)
	return &admin{DB: db}
}

// Run runs statements as soon as the server lets the administrator in: it may be recovering from a crash.
func (a *admin) Run(ctx context.Context, statements ...string) error {
	if err := Eventually(ctx, a.PingContext); err != nil {
		return err
	}
	for _, statement := range statements {
		if _, err := a.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// running is a step that runs statements.
func (a *admin) running(statements ...string) func(ctx context.Context) error {
	return func(ctx context.Context) error { return a.Run(ctx, statements...) }
}

// row asks for one row as soon as the server lets the administrator in.
func (a *admin) row(ctx context.Context, to any, query string, args ...any) error {
	if err := a.Run(ctx); err != nil {
		return err
	}
	return a.QueryRowContext(ctx, query, args...).Scan(to)
}

// overwrite takes the lock on name for somebody else: end ends the holder's session, and query, of key, says whether the lock was got.
func (a *admin) overwrite(ctx context.Context, name, query string, key any, end func(ctx context.Context, name string) error) error {
	conn, err := a.Conn(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	a.mu.Lock()
	a.foreign = append(a.foreign, conn)
	a.mu.Unlock()
	for got := false; !got; { // somebody who waits may be quicker
		if err := end(ctx, name); err != nil && !errors.Is(err, ErrNotHeld) {
			return err
		}
		if err := conn.QueryRowContext(ctx, query, key).Scan(&got); err != nil {
			return err
		}
	}
	return nil
}

// each calls use for each row of a query.
func (a *admin) each(ctx context.Context, use func(*sql.Rows) error, query string, args ...any) error {
	rows, err := a.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := use(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (a *admin) close() {
	for _, conn := range a.foreign {
		_ = conn.Close()
	}
	_ = a.DB.Close()
}
