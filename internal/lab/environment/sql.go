package environment

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/lockport/lockport/internal/lab/servers"
)

// urls makes what makes the URLs of locks on a server, of its own URL.
type urls func(server string) func(addrs []string) string

// layout is how locks are kept on a SQL server: by sessions, or in rows.
type layout struct {
	url urls
	on  func(b sqlBase) Servers
}

// sqlBase is SQL servers.
type sqlBase struct {
	base
	// Admin are connections of the administrator.
	Admin *admin
}

// Close implements Servers.
func (b *sqlBase) Close() error { return errors.Join(b.Admin.Close(), b.base.Close()) }

// sqlURL has a server's own URL with other addresses and our TTL.
func sqlURL(server string) func(addrs []string) string {
	return func(addrs []string) string {
		u, _ := url.Parse(server)
		u.Host, u.RawQuery = strings.Join(addrs, ","), "ttl="+usualTTL.String()
		return u.String()
	}
}

// sessions are locks that belong to sessions with a SQL server.
type sessions struct {
	sqlBase
	// used asks for the ids of the sessions that have the lock on a name, end ends the session with an id, and lock asks for the lock on a name.
	used, end, lock string
	leftovers       func(ctx context.Context, prefix string) ([]string, error)
	names           sync.Map // that were asked for, where the server's keys do not tell them

	mu      sync.Mutex
	foreign []*sql.Conn // those of somebody else, who took a lock's place
}

// Close implements Servers.
func (s *sessions) Close() error {
	for _, conn := range s.foreign {
		_ = conn.Close()
	}
	return s.sqlBase.Close()
}

// Leftovers implements Servers.
func (s *sessions) Leftovers(ctx context.Context, prefix string) ([]string, error) {
	return s.leftovers(ctx, prefix)
}

// Remove ends the sessions that have the lock on name, and returns when they have it no more. Somebody who waits may have it then.
func (s *sessions) Remove(ctx context.Context, name string) error {
	if err := s.Admin.Run(ctx); err != nil {
		return err
	}
	first, err := texts(ctx, s.Admin, s.used, []byte(name))
	if err == nil && len(first) == 0 {
		return ErrNotHeld
	}
	for holders := first; err == nil && len(holders) > 0; {
		for _, holder := range holders {
			_, _ = s.Admin.ExecContext(ctx, fmt.Sprintf(s.end, holder)) // it may just have ended
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
	s.mu.Lock()
	s.foreign = append(s.foreign, conn)
	s.mu.Unlock()
	for got := false; !got; { // somebody who waits may be quicker
		if err := s.Remove(ctx, name); err != nil && !errors.Is(err, ErrNotHeld) {
			return err
		}
		if err := conn.QueryRowContext(ctx, s.lock, []byte(name)).Scan(&got); err != nil {
			return err
		}
	}
	return nil
}

// admin are connections of a server's administrator, each new: the server may have been killed since the last.
type admin struct{ *sql.DB }

func newAdmin(db *sql.DB) *admin {
	db.SetMaxIdleConns(-1)
	return &admin{db}
}

// Run runs statements as soon as the server lets the administrator in: it may be recovering from a crash.
func (a *admin) Run(ctx context.Context, statements ...string) error {
	if err := servers.Poll(ctx, a.PingContext); err != nil {
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

// texts asks for rows of one text.
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
