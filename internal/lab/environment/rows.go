package environment

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/lockport/lockport/internal/lab/servers"
)

// Rows are locks that are rows of a table on a SQL server.
type Rows struct {
	base
	// Admin are connections of the administrator.
	Admin *admin
	// mark is a placeholder for the only argument, and now the server's clock in microseconds.
	mark, now string
	// Pooler stands before the server, if it is not nil.
	Pooler *servers.PgBouncer
}

// rowsURL has a server's own URL with other addresses, and makes the table.
func rowsURL(server string) func(addrs []string) string {
	return func(addrs []string) string {
		u, _ := url.Parse(server)
		query := "create=true"
		if u.Scheme == "postgres" {
			query += "&sslmode=disable" // else the driver connects twice, to ask for TLS first
		}
		u.Scheme, u.Host, u.RawQuery = "table+"+u.Scheme, strings.Join(addrs, ","), query
		return u.String()
	}
}

func startPostgresRows(ctx context.Context) (Servers, error) {
	s, err := servers.StartPostgres(ctx, servers.PostgresOptions{Clock: servers.ClockInstalled() == nil}) // it runs a compiler, so not before it is needed
	if err != nil {
		return nil, err
	}
	return postgresRows(baseOf(rowsURL(s.URL()), s.Server), s), nil
}

func postgresRows(b base, s *servers.Postgres) *Rows {
	r := &Rows{base: b, Admin: postgresAdmin(s), mark: "$1", now: "extract(epoch FROM clock_timestamp()) * 1000000"}
	r.halt = (*servers.Server).Stop
	r.reset = r.Admin.running()
	return r
}

func startMySQLRows(own bool) starter {
	return starts(servers.StartMariaDB, servers.MariaDBOptions{MySQL: own}, func(s *servers.MariaDB) *Rows {
		r := &Rows{base: baseOf(rowsURL(s.URL()), s.Server), Admin: mySQLAdmin(s), mark: "?", now: "UNIX_TIMESTAMP() * 1000000"}
		r.halt = (*servers.Server).Kill
		r.reset = r.Admin.running()
		return r
	})
}

func pooledRows(b base, s *servers.Postgres, pooler *servers.PgBouncer) *Rows {
	r := postgresRows(b, s)
	r.Pooler = pooler
	return r
}

// Close implements Servers.
func (r *Rows) Close() error { return errors.Join(r.Admin.Close(), r.base.Close()) }

// Remove implements Servers.
func (r *Rows) Remove(ctx context.Context, name string) error {
	if err := r.Admin.Run(ctx); err != nil {
		return err
	}
	result, err := r.Admin.ExecContext(ctx, "DELETE FROM lockport_locks WHERE name = "+r.mark, name)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, ErrNotHeld)
	}
	return nil
}

// Overwrite implements Servers, for a name that has a row.
func (r *Rows) Overwrite(ctx context.Context, name string) error {
	_, err := r.Admin.ExecContext(ctx, "UPDATE lockport_locks SET owner = 'somebody else', expires = 9000000000000000 WHERE name = "+r.mark, name)
	return err
}

// Leftovers implements Servers: locks that are held.
func (r *Rows) Leftovers(ctx context.Context, prefix string) (left []string, err error) {
	all, err := texts(ctx, r.Admin, "SELECT name FROM lockport_locks WHERE owner <> '' AND expires > "+r.now)
	for _, name := range all {
		if strings.HasPrefix(name, prefix) {
			left = append(left, name)
		}
	}
	return left, err
}
