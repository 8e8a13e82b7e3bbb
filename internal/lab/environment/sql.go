package environment

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/lockport/lockport/internal/lab/servers"
)

// layout is a way to keep locks on a SQL server: by sessions, or in rows. url makes a lock URL from the server's URL.
type layout struct {
	url func(server string) string
	on  func(b sqlBase) Servers
}

// sqlBase is the base of environments of SQL servers.
type sqlBase struct {
	base
	// Admin opens the administrator's connections.
	Admin *admin
}

// Close implements Servers.
func (b *sqlBase) Close() error { return errors.Join(b.Admin.Close(), b.base.Close()) }

func sessionURL(server string) string { return withTTL(server, usualTTL) }

// sessions is an environment whose locks belong to sessions with a SQL server.
type sessions struct {
	sqlBase
	// SQL: used lists the ids of the sessions that hold the lock on a name, end ends the session with an id, and lock takes the lock on a name.
	used, end, lock string
	leftovers       func(ctx context.Context, prefix string) ([]string, error)
	names           sync.Map // names of requests, if the server's keys do not contain them
}

// Leftovers implements Servers.
func (s *sessions) Leftovers(ctx context.Context, prefix string) ([]string, error) {
	return s.leftovers(ctx, prefix)
}

// Remove ends the sessions that hold the lock on name, and returns when they no longer hold it. A waiter may hold it then.
func (s *sessions) Remove(ctx context.Context, name string) error {
	if err := s.Admin.ready(ctx); err != nil {
		return err
	}
	first, err := texts(ctx, s.Admin, s.used, []byte(name))
	if err == nil && len(first) == 0 {
		return ErrNotHeld
	}
	for holders := first; err == nil && len(holders) > 0; {
		for _, holder := range holders {
			_, _ = s.Admin.ExecContext(ctx, fmt.Sprintf(s.end, holder)) // the session may just have ended
		}
		holders, err = texts(ctx, s.Admin, s.used, []byte(name))
		holders = slices.DeleteFunc(holders, func(h string) bool { return !slices.Contains(first, h) })
	}
	return err
}

// Overwrite implements Servers.
func (s *sessions) Overwrite(ctx context.Context, name string) error {
	conn, err := s.Admin.Conn(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	context.AfterFunc(s.open, func() { _ = conn.Close() })
	for got := false; !got; { // a waiter may be quicker
		if err := s.Remove(ctx, name); err != nil && !errors.Is(err, ErrNotHeld) {
			return err
		}
		if err := conn.QueryRowContext(ctx, s.lock, []byte(name)).Scan(&got); err != nil {
			return err
		}
	}
	return nil
}

// admin opens a new connection for each use: the server may have been killed since the last one.
type admin struct{ *sql.DB }

func newAdmin(db *sql.DB) *admin {
	db.SetMaxIdleConns(-1)
	return &admin{db}
}

// ready waits until the server accepts the administrator: it may be recovering from a crash.
func (a *admin) ready(ctx context.Context) error { return servers.Poll(ctx, a.PingContext) }

// Run runs statements as soon as the server is ready.
func (a *admin) Run(ctx context.Context, statements ...string) error {
	if err := a.ready(ctx); err != nil {
		return err
	}
	for _, statement := range statements {
		if _, err := a.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// texts returns the rows of a query for one text column.
func texts(ctx context.Context, on interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}, query string, args ...any) (all []string, err error) {
	rows, err := on.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close(), rows.Err()) }()
	for rows.Next() && err == nil {
		all = append(all, "")
		err = rows.Scan(&all[len(all)-1])
	}
	return all, err
}
