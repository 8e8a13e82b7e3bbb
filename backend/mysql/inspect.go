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
	from := " FROM DUAL"
	if !b.server.o.NoTokens {
		from = " FROM (SELECT 1) one LEFT JOIN " + b.server.table + " ON id=" + literal(key)
	}
	rows, err := b.ask(ctx, "SELECT IS_USED_LOCK("+literal(key)+")"+b.server.rowFields()+from)
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
	// In chunks by id, so that a table of any size is read with answers of bounded size.
	var all []driver.Status
	for after := ""; ; {
		rows, err := b.ask(ctx, fmt.Sprintf("SELECT id,name%s FROM %s WHERE id>%s AND LEFT(name,%d)=%s ORDER BY id LIMIT %d",
			s.rowFields(), s.table, binary(after), len(prefix), binary(prefix), listPage))
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			after = text(row[0])
			if isOne(row[2]) {
				all = append(all, driver.Status{Name: text(row[1]), Held: true, Owner: text(row[3]), Token: uint64(asInt(row[4])),
					Since: time.Unix(asInt(row[5]), 0), Waiters: -1})
			}
		}
		if len(rows) < listPage {
			return all, nil
		}
	}
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

// Break implements driver.Breaker: it kills the holder's session. Since that has all its other locks too, it refuses where the session is known to have
// others, and where that cannot be known.
func (b *Backend) Break(ctx context.Context, name, owner string) error {
	st, err := b.Inspect(ctx, name)
	if err != nil {
		return err
	}
	gone := fmt.Errorf("%w: %q does not have it", driver.ErrLost, owner)
	if !st.Held || st.Owner != owner {
		return gone
	}
	key, err := b.server.layout.key(name)
	if err != nil {
		return err
	}
	thread, others, err := b.othersOf(ctx, key, owner, st.Foreign)
	switch {
	case err != nil:
		return err
	case thread == 0, st.Foreign && owner != connectionPrefix+strconv.FormatInt(thread, 10): // it has changed hands since
		return gone
	case others > 0:
		return fmt.Errorf("%w: the session that has it, %d, has %d other locks, which would be lost too: KILL %d if that must be",
			driver.ErrRefused, thread, others, thread)
	case others < 0:
		return fmt.Errorf("%w: which other locks the session that has it, %d, has is not known, and they would be lost too: KILL %d if that must be",
			driver.ErrRefused, thread, thread)
	}
	_, err = b.ask(ctx, "KILL "+strconv.FormatInt(thread, 10))
	if errors.Is(err, driver.ErrRefused) {
		return err
	}
	// It ends in its own time. If it was ours, the first question may be lost with it.
	for began, own := time.Now(), err != nil; ; own = false {
		if time.Since(began) > endTime {
			return fmt.Errorf("%w: the session that has it, %d, does not end", driver.ErrUnknown, thread)
		}
		rows, err := b.ask(ctx, afterPause(literal(key)))
		if own && err != nil && ctx.Err() == nil {
			continue
		}
		if err != nil || len(rows) != 1 || asInt(rows[0][0]) != thread {
			return err
		}
	}
}

// endTime is for how long a session that was killed is waited for.
const endTime = 2 * time.Second

// othersOf is the session that has key, for owner if that is known, and how many other locks it has, as far as can be known: -1 if not.
func (b *Backend) othersOf(ctx context.Context, key session.Key, owner string, foreign bool) (thread int64, others int, err error) {
	s := b.server
	if !foreign {
		// A session of ours: all its locks have rows in our table.
		rows, err := b.ask(ctx, fmt.Sprintf("SELECT f.session,(SELECT COUNT(*) FROM %[1]s o WHERE o.marker=f.marker AND o.session=f.session AND o.id<>f.id "+
			"AND IS_USED_LOCK(o.id)=f.session) FROM %[1]s f WHERE f.id=%[2]s AND f.owner=%[3]s AND IS_USED_LOCK(f.id)=f.session",
			s.table, literal(key), binary(owner)))
		if err != nil || len(rows) == 0 {
			return 0, 0, err
		}
		return asInt(rows[0][0]), int(asInt(rows[0][1])), nil
	}
	rows, err := b.ask(ctx, "SELECT IS_USED_LOCK("+literal(key)+")")
	if err != nil || len(rows) != 1 || rows[0][0] == nil {
		return 0, 0, err
	}
	thread = asInt(rows[0][0])
	for _, query := range []string{
		// MariaDB with the plugin metadata_lock_info, then MySQL.
		"SELECT COUNT(*) FROM information_schema.METADATA_LOCK_INFO WHERE LOCK_TYPE='User lock' AND TABLE_SCHEMA NOT LIKE '" + markerPrefix + "%%' AND THREAD_ID=%d",
		"SELECT COUNT(*) FROM performance_schema.metadata_locks l JOIN performance_schema.threads t ON t.THREAD_ID=l.OWNER_THREAD_ID " +
			"WHERE l.OBJECT_TYPE='USER LEVEL LOCK' AND l.LOCK_STATUS='GRANTED' AND l.OBJECT_NAME NOT LIKE '" + markerPrefix + "%%' AND t.PROCESSLIST_ID=%d",
	} {
		rows, err := b.ask(ctx, fmt.Sprintf(query, thread))
		if err == nil && len(rows) == 1 && asInt(rows[0][0]) > 0 { // else it is not switched on, or not to be asked
			return thread, int(asInt(rows[0][0])) - 1, nil
		}
	}
	return thread, -1, nil
}
