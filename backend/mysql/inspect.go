package mysql

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/session"
)

// connectionPrefix begins the owner of a lock of which more is not known than the number of its session.
const connectionPrefix = "connection:"

// rowFields are the fields of a row of the table that tell of a lock: whether the row is of the session that has it, and then owner, token, and since when.
const rowFields = "session=IS_USED_LOCK(id) AND session=IS_USED_LOCK(marker),owner,token,UNIX_TIMESTAMP(at)"

// Inspect implements driver.Inspector. The owner is known where the lock was granted under a fencing token in our table; of others the number of the
// session is.
func (b *Backend) Inspect(ctx context.Context, name string) (found driver.Status, err error) {
	found = driver.Status{Name: name, Waiters: -1}
	key, err := b.server.layout.key(name)
	if err != nil {
		return found, err
	}
	err = b.server.look(ctx, func(l link) (err error) {
		found, _, err = b.server.find(ctx, l, name, key)
		return err
	})
	return found, err
}

// find is Inspect on a connection, and says which session has the lock.
func (s *server) find(ctx context.Context, l link, name string, key session.Key) (found driver.Status, thread int64, err error) {
	found = driver.Status{Name: name, Waiters: -1}
	used := "SELECT IS_USED_LOCK(" + literal(key) + ")"
	var r row
	if !s.o.NoTokens {
		r, err = l.row(ctx, used+","+rowFields+" FROM (SELECT 1) one LEFT JOIN "+s.table+" ON id="+literal(key))
	}
	if s.o.NoTokens || number(err) == errNoTable { // where there is no table, no client of lockport has been
		r, err = l.row(ctx, used)
	}
	if err != nil || r.isNull(0) {
		return found, 0, err
	}
	found.Held = true
	if len(r) > 1 && r.number(1) == 1 {
		r.describe(&found, 2)
	} else {
		found.Owner, found.Foreign = connectionPrefix+r.text(0), true
	}
	return found, r.number(0), nil
}

// describe fills in st what the columns from first on, the last of rowFields, tell of a lock.
func (r row) describe(st *driver.Status, first int) {
	st.Held, st.Owner, st.Token, st.Since = true, r.text(first), uint64(r.number(first+1)), time.Unix(r.number(first+2), 0)
}

// List implements driver.Inspector. Without tokens it is unsupported, since the server knows the names' hashes alone.
func (b *Backend) List(ctx context.Context, prefix string) (all []driver.Status, err error) {
	s := b.server
	if s.o.NoTokens {
		return nil, fmt.Errorf("%w: without the table of fencing tokens the names of locks are not known", errors.ErrUnsupported)
	}
	err = s.look(ctx, func(l link) error {
		// In chunks by id, so that a table of any size is read with answers of bounded size.
		for after, more := "", true; more; {
			rows, err := l.rows(ctx, fmt.Sprintf("SELECT id,name,%s FROM %s WHERE id>%s AND LEFT(name,%d)=%s ORDER BY id LIMIT %d",
				rowFields, s.table, binary(after), len(prefix), binary(prefix), listPage))
			if number(err) == errNoTable { // nobody has made a claim yet
				return nil
			}
			if err != nil {
				return err
			}
			for _, r := range rows {
				after = r.text(0)
				if st := (driver.Status{Name: r.text(1), Waiters: -1}); r.number(2) == 1 {
					r.describe(&st, 3)
					all = append(all, st)
				}
			}
			more = len(rows) == listPage
		}
		return nil
	})
	return all, err
}

// listPage is how many rows List asks for at once.
const listPage = 1000
