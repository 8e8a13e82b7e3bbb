package environment

import (
	"context"
	"errors"
	"strings"
)

// rows is an environment whose locks are rows of a table on a SQL server.
type rows struct {
	sqlBase
	// mark is the placeholder of the only argument. now is SQL for the server's clock in microseconds.
	mark, now string
}

// rowsURL makes a lock URL from a server's URL.
func rowsURL(server string) string { return "table+" + server + "?create=true" }

var (
	postgresRows = layout{
		func(server string) string { return rowsURL(server) + "&sslmode=disable" }, // otherwise the driver connects twice, first with TLS
		func(b sqlBase) Servers { return &rows{b, "$1", "extract(epoch FROM clock_timestamp()) * 1000000"} },
	}
	mySQLRows = layout{rowsURL, func(b sqlBase) Servers { return &rows{b, "?", "UNIX_TIMESTAMP() * 1000000"} }}
)

// Remove implements Servers.
func (r *rows) Remove(ctx context.Context, name string) error {
	if err := r.Admin.ready(ctx); err != nil {
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

// Overwrite implements Servers for a name that has a row.
func (r *rows) Overwrite(ctx context.Context, name string) error {
	_, err := r.Admin.ExecContext(ctx, "UPDATE lockport_locks SET owner = 'somebody else', expires = 9000000000000000 WHERE name = "+r.mark, name)
	return err
}

// Leftovers implements Servers. It lists the locks that are held.
func (r *rows) Leftovers(ctx context.Context, prefix string) (left []string, err error) {
	all, err := texts(ctx, r.Admin, "SELECT name FROM lockport_locks WHERE owner <> '' AND expires > "+r.now)
	for _, name := range all {
		if strings.HasPrefix(name, prefix) {
			left = append(left, name)
		}
	}
	return left, err
}
