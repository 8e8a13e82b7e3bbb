package environment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

// layout is a way to keep locks on a SQL server: by sessions, or in rows.
type layout struct {
	// url makes a lock URL from the server's URL.
	url func(server string) string
	// at returns the locks of a server.
	at func(s *servers.Server) locks
	// forgets says that the server may be restarted without its data.
	forgets bool
}

// locks are the locks of a SQL server: see Servers.
type locks interface {
	Remove(ctx context.Context, name string) error
	Overwrite(ctx context.Context, name string) error
	Leftovers(ctx context.Context, prefix string) ([]string, error)
}

func sessionURL(server string) string { return withTTL(server, usualTTL) }

// sessions are locks that belong to sessions with a SQL server.
type sessions struct {
	server *servers.Server
	key    func(name string) any // the server's key of the lock on name
	// SQL: used lists the ids of the sessions that hold the lock with a key, end ends the session with an id, and lock takes the lock with a key.
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
	if err := s.server.Serves(ctx); err != nil {
		return err
	}
	first, err := s.server.Texts(ctx, s.used, s.key(name))
	if err == nil && len(first) == 0 {
		return ErrNotHeld
	}
	for holders := first; err == nil && len(holders) > 0; {
		for _, holder := range holders {
			_, _ = s.server.Admin.ExecContext(ctx, fmt.Sprintf(s.end, holder)) // the session may just have ended
		}
		holders, err = s.server.Texts(ctx, s.used, s.key(name))
		holders = slices.DeleteFunc(holders, func(h string) bool { return !slices.Contains(first, h) })
	}
	return err
}

// Overwrite implements Servers. The foreign session ends with the server.
func (s *sessions) Overwrite(ctx context.Context, name string) error {
	conn, err := s.server.Admin.Conn(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	for got := false; !got; { // a waiter may be quicker
		if err := s.Remove(ctx, name); err != nil && !errors.Is(err, ErrNotHeld) {
			return err
		}
		if err := conn.QueryRowContext(ctx, s.lock, s.key(name)).Scan(&got); err != nil {
			return err
		}
	}
	return nil
}

// record makes open's backends record the names of their requests.
func (s *sessions) record(open func(context.Context, string) (driver.Backend, error)) func(context.Context, string) (driver.Backend, error) {
	return func(ctx context.Context, url string) (driver.Backend, error) {
		b, err := open(ctx, url)
		if err != nil {
			return nil, err
		}
		return &recorder{b, &s.names}, nil
	}
}

// recorder is a backend that records the names of requests.
type recorder struct {
	driver.Backend
	names *sync.Map
}

// Unwrap implements driver.Unwrapper.
func (r *recorder) Unwrap() driver.Backend { return r.Backend }

// TryAcquire implements driver.Backend.
func (r *recorder) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	r.names.Store(req.Name, true)
	return r.Backend.TryAcquire(ctx, req)
}

// rows are locks that are rows of a table.
type rows struct {
	server *servers.Server
	// mark is the placeholder of the only argument. now is SQL for the server's clock in microseconds.
	mark, now string
}

// rowsURL makes a lock URL from a server's URL.
func rowsURL(server string) string { return "table+" + server + "?create=true" }

// Remove implements Servers.
func (r *rows) Remove(ctx context.Context, name string) error {
	if err := r.server.Serves(ctx); err != nil {
		return err
	}
	result, err := r.server.Admin.ExecContext(ctx, "DELETE FROM lockport_locks WHERE name = "+r.mark, name)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, ErrNotHeld)
	}
	return nil
}

// Overwrite implements Servers for a name that has a row.
func (r *rows) Overwrite(ctx context.Context, name string) error {
	_, err := r.server.Admin.ExecContext(ctx, "UPDATE lockport_locks SET owner = 'somebody else', expires = 9000000000000000 WHERE name = "+r.mark, name)
	return err
}

// Leftovers implements Servers. It lists the locks that are held.
func (r *rows) Leftovers(ctx context.Context, prefix string) ([]string, error) {
	all, err := r.server.Texts(ctx, "SELECT name FROM lockport_locks WHERE owner <> '' AND expires > "+r.now)
	return slices.DeleteFunc(all, func(name string) bool { return !strings.HasPrefix(name, prefix) }), err
}
