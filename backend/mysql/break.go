package mysql

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/session"
)

// Break implements driver.Breaker: it kills the holder's session. Since that has all its other locks too, it refuses where the session is known to have
// others, and where that cannot be known, with a *driver.SharedSessionError.
func (b *Backend) Break(ctx context.Context, name, owner string) error {
	return b.kill(ctx, name, owner, false)
}

// BreakSession implements driver.SessionBreaker.
func (b *Backend) BreakSession(ctx context.Context, name, owner string) error {
	return b.kill(ctx, name, owner, true)
}

// kill kills the session on which owner has name, and waits for its end; one that has other locks, only if all may be lost.
func (b *Backend) kill(ctx context.Context, name, owner string, all bool) error {
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
	case others != nil && !all:
		return others
	}
	return b.end(ctx, key, thread)
}

// end kills the session if it has key now: since it was looked at, another may have got the key. ErrLost: it has not.
func (b *Backend) end(ctx context.Context, key session.Key, thread int64) error {
	_, err := b.ask(ctx, fmt.Sprintf("KILL IF(IS_USED_LOCK(%s)=%d,%[2]d,0)", literal(key), thread))
	if errors.Is(err, driver.ErrRefused) || number(err) == errNoSuchThread {
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

// othersOf is the session that has key, for owner if that is known, and what other locks it has, as far as can be known; nil: none.
func (b *Backend) othersOf(ctx context.Context, key session.Key, owner string, foreign bool) (thread int64, others *driver.SharedSessionError, err error) {
	if !foreign {
		return b.othersOfOurs(ctx, key, owner)
	}
	rows, err := b.ask(ctx, "SELECT IS_USED_LOCK("+literal(key)+")")
	if err != nil || len(rows) != 1 || rows[0][0] == nil {
		return 0, nil, err
	}
	thread = asInt(rows[0][0])
	others = &driver.SharedSessionError{Session: sessionName(thread), Others: -1}
	for _, query := range []string{
		// MariaDB with the plugin metadata_lock_info, then MySQL.
		"SELECT TABLE_SCHEMA FROM information_schema.METADATA_LOCK_INFO WHERE LOCK_TYPE='User lock' AND TABLE_SCHEMA NOT LIKE '" + markerPrefix + "%%' AND THREAD_ID=%d",
		"SELECT l.OBJECT_NAME FROM performance_schema.metadata_locks l JOIN performance_schema.threads t ON t.THREAD_ID=l.OWNER_THREAD_ID " +
			"WHERE l.OBJECT_TYPE='USER LEVEL LOCK' AND l.LOCK_STATUS='GRANTED' AND l.OBJECT_NAME NOT LIKE '" + markerPrefix + "%%' AND t.PROCESSLIST_ID=%d",
	} {
		rows, err := b.ask(ctx, fmt.Sprintf(query, thread))
		if err != nil || len(rows) == 0 { // it is not switched on, or not to be asked
			continue
		}
		if others.Others = len(rows) - 1; others.Others == 0 {
			return thread, nil, nil
		}
		for _, row := range rows {
			if name := text(row[0]); b.server.layout.exact && name != string(key) && len(others.Names) < others.Others {
				others.Names = append(others.Names, name)
			}
		}
		break
	}
	return thread, others, nil
}

// othersOfOurs is othersOf a session of a lockport client: all its locks have rows in our table.
func (b *Backend) othersOfOurs(ctx context.Context, key session.Key, owner string) (thread int64, others *driver.SharedSessionError, err error) {
	rows, err := b.ask(ctx, fmt.Sprintf("SELECT f.session,o.name FROM %[1]s f LEFT JOIN %[1]s o ON o.marker=f.marker AND o.session=f.session AND o.id<>f.id "+
		"AND IS_USED_LOCK(o.id)=f.session WHERE f.id=%[2]s AND f.owner=%[3]s AND IS_USED_LOCK(f.id)=f.session", b.server.table, literal(key), binary(owner)))
	if err != nil || len(rows) == 0 {
		return 0, nil, err
	}
	thread = asInt(rows[0][0])
	if rows[0][1] == nil {
		return thread, nil, nil
	}
	others = &driver.SharedSessionError{Session: sessionName(thread), Others: len(rows)}
	for _, row := range rows {
		others.Names = append(others.Names, text(row[1]))
	}
	return thread, others, nil
}

// sessionName is what people call a session.
func sessionName(thread int64) string { return fmt.Sprintf("connection %d", thread) }
