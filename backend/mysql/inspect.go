package mysql

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	sqldriver "database/sql/driver"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/session"
)

// connectionPrefix begins the owner of a lock of which more is not known than the number of its session.
const connectionPrefix = "connection:"

// Inspect implements driver.Inspector. Who has a lock is known where it was granted under a fencing token that is in our table; of others the number of
// the session is.
func (b *Backend) Inspect(ctx context.Context, name string) (driver.Status, error) {
	found := driver.Status{Name: name, Waiters: -1}
	key, err := b.server.layout.key(name)
	if err != nil {
		return found, err
	}
	used := "SELECT IS_USED_LOCK(" + literal(key) + ")"
	var rows [][]sqldriver.Value
	err = b.lookAtLocks(ctx, func(ask asking) (err error) {
		if !b.server.o.NoTokens {
			rows, err = ask(used + b.server.rowFields() + " FROM (SELECT 1) one LEFT JOIN " + b.server.table + " ON id=" + literal(key))
		}
		if b.server.o.NoTokens || number(err) == errNoTable { // where there is no table, no client of lockport has been
			rows, err = ask(used)
		}
		return err
	})
	if err != nil || len(rows) != 1 || rows[0][0] == nil {
		return found, err
	}
	found.Held = true
	thread := asInt(rows[0][0])
	if row := rows[0][1:]; len(row) > 0 && isOne(row[0]) {
		found.Owner = text(row[1])
		found.Token = uint64(asInt(row[2]))
		found.Since = time.Unix(asInt(row[3]), 0)
		return found, nil
	}
	found.Owner, found.Foreign = connectionPrefix+strconv.FormatInt(thread, 10), true
	return found, nil
}

// rowFields are further fields of a query for a lock: whether its row is of the session that has it, and then owner, token, and since when.
func (s *server) rowFields() string {
	if s.o.NoTokens {
		return ""
	}
	return ",session=IS_USED_LOCK(id) AND session=IS_USED_LOCK(marker),owner,token,UNIX_TIMESTAMP(at)"
}

// List implements driver.Inspector. Without tokens it is unsupported, since the server knows the names' hashes alone.
func (b *Backend) List(ctx context.Context, prefix string) ([]driver.Status, error) {
	s := b.server
	if s.o.NoTokens {
		return nil, fmt.Errorf("%w: without the table of fencing tokens the names of locks are not known", errors.ErrUnsupported)
	}
	var all []driver.Status
	err := b.lookAtLocks(ctx, func(ask asking) error {
		// In chunks by id, so that a table of any size is read with answers of bounded size.
		for after, more := "", true; more; {
			rows, err := ask(fmt.Sprintf("SELECT id,name%s FROM %s WHERE id>%s AND LEFT(name,%d)=%s ORDER BY id LIMIT %d",
				s.rowFields(), s.table, binary(after), len(prefix), binary(prefix), listPage))
			if number(err) == errNoTable { // nobody has made a claim yet
				return nil
			}
			if err != nil {
				return err
			}
			for _, row := range rows {
				after = text(row[0])
				if isOne(row[2]) {
					all = append(all, driver.Status{Name: text(row[1]), Held: true, Owner: text(row[3]), Token: uint64(asInt(row[4])),
						Since: time.Unix(asInt(row[5]), 0), Waiters: -1})
				}
			}
			more = len(rows) == listPage
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// listPage is how many rows List asks for at once.
const listPage = 1000

// ask puts one question on the main session.
func (b *Backend) ask(ctx context.Context, query string) ([][]sqldriver.Value, error) {
	q := &question{query: query}
	op := &session.Op{Kind: session.Ask, Ask: q}
	if err := b.Do(ctx, op); err != nil {
		return nil, err
	}
	return q.rows, op.Err
}

func text(v sqldriver.Value) string { s, _ := v.(string); return s }
