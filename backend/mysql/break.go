package mysql

import (
	"context"
	"fmt"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/session"
)

// Break implements driver.Breaker: it kills the holder's session. It refuses with a *driver.SharedSessionError where the session has other locks, and where
// that cannot be known.
func (b *Backend) Break(ctx context.Context, name, owner string) error {
	return b.kill(ctx, name, owner, false)
}

// BreakSession implements driver.SessionBreaker.
func (b *Backend) BreakSession(ctx context.Context, name, owner string) error {
	return b.kill(ctx, name, owner, true)
}

// kill kills the session on which owner has name, and waits for its end; one that has others, only if all may be lost.
func (b *Backend) kill(ctx context.Context, name, owner string, all bool) error {
	s := b.server
	key, err := s.layout.key(name)
	if err != nil {
		return err
	}
	return s.look(ctx, func(l link) error {
		st, thread, err := s.find(ctx, l, name, key)
		var others *driver.SharedSessionError
		switch {
		case err != nil:
			return err
		case !st.Held || st.Owner != owner:
			thread = 0
		case st.Foreign:
			others = s.othersOfForeign(ctx, l, key, thread)
		default:
			thread, others, err = s.othersOfOurs(ctx, l, key, owner)
		}
		switch {
		case err != nil:
			return err
		case thread == 0:
			return fmt.Errorf("%w: %q does not have it", driver.ErrLost, owner)
		case others != nil && !all:
			return others
		}
		return s.end(ctx, l, key, thread)
	})
}

// end kills the session if it has key now: since it was looked at, another may have got the key. ErrLost: it has not.
func (s *server) end(ctx context.Context, l link, key session.Key, thread int64) error {
	err := l.exec(ctx, fmt.Sprintf("KILL IF(IS_USED_LOCK(%s)=%d,%[2]d,0)", literal(key), thread))
	if number(err) != 0 {
		return err
	}
	if err != nil {
		return fmt.Errorf("%w: %w", driver.ErrUnknown, err)
	}
	for began := time.Now(); ; { // it ends in its own time
		if time.Since(began) > endTime {
			return fmt.Errorf("%w: the session that has it, %d, does not end", driver.ErrUnknown, thread)
		}
		r, err := l.row(ctx, "SELECT SLEEP(0.002),IS_USED_LOCK("+literal(key)+")")
		if err != nil {
			return fmt.Errorf("%w: the session that has it, %d, was killed: %w", driver.ErrUnknown, thread, err)
		}
		if r.number(1) != thread {
			return nil
		}
	}
}

// endTime is for how long the end of a session that was killed is awaited.
const endTime = 2 * time.Second

// foreignLocks list the locks of a session: MariaDB with the plugin metadata_lock_info, then MySQL.
var foreignLocks = []string{
	"SELECT TABLE_SCHEMA FROM information_schema.METADATA_LOCK_INFO WHERE LOCK_TYPE='User lock' AND TABLE_SCHEMA NOT LIKE '%s%%' AND THREAD_ID=%d",
	"SELECT l.OBJECT_NAME FROM performance_schema.metadata_locks l JOIN performance_schema.threads t ON t.THREAD_ID=l.OWNER_THREAD_ID " +
		"WHERE l.OBJECT_TYPE='USER LEVEL LOCK' AND l.LOCK_STATUS='GRANTED' AND l.OBJECT_NAME NOT LIKE '%s%%' AND t.PROCESSLIST_ID=%d",
}

// othersOfForeign is what other locks the session of another program has, as far as can be known; nil: none.
func (s *server) othersOfForeign(ctx context.Context, l link, key session.Key, thread int64) *driver.SharedSessionError {
	others := &driver.SharedSessionError{Session: sessionName(thread), Others: -1}
	for _, query := range foreignLocks {
		rows, err := l.rows(ctx, fmt.Sprintf(query, markerPrefix, thread))
		switch {
		case err != nil || len(rows) == 0: // it is not switched on, or not to be asked
			continue
		case len(rows) == 1:
			return nil
		}
		others.Others = len(rows) - 1
		for _, r := range rows {
			if name := r.text(0); s.layout.exact && name != string(key) {
				others.Names = append(others.Names, name)
			}
		}
		break
	}
	return others
}

// othersOfOurs is the session of a lockport client that has key for owner, 0 if none, and what other locks it has: all have rows in our table.
func (s *server) othersOfOurs(ctx context.Context, l link, key session.Key, owner string) (thread int64, others *driver.SharedSessionError, err error) {
	rows, err := l.rows(ctx, fmt.Sprintf("SELECT f.session,o.name FROM %[1]s f LEFT JOIN %[1]s o ON o.marker=f.marker AND o.session=f.session AND o.id<>f.id "+
		"AND IS_USED_LOCK(o.id)=f.session WHERE f.id=%[2]s AND f.owner=%[3]s AND IS_USED_LOCK(f.id)=f.session", s.table, literal(key), binary(owner)))
	if err != nil || len(rows) == 0 {
		return 0, nil, err
	}
	if thread = rows[0].number(0); rows[0].isNull(1) {
		return thread, nil, nil
	}
	others = &driver.SharedSessionError{Session: sessionName(thread), Others: len(rows)}
	for _, r := range rows {
		others.Names = append(others.Names, r.text(1))
	}
	return thread, others, nil
}

// sessionName is what people call a session.
func sessionName(thread int64) string { return fmt.Sprintf("connection %d", thread) }
