package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/session"
	"github.com/lockport/lockport/internal/sqlrow"
)

// connectionPrefix begins the owner of a lock of which only the session is known.
const connectionPrefix = "connection:"

// rowFields are a row's fields on a lock: whether the row is the holder session's, then owner, token and since.
const rowFields = "session=IS_USED_LOCK(id) AND session=IS_USED_LOCK(marker),owner,token,UNIX_TIMESTAMP(at)"

// Inspect implements driver.Inspector. The owner is known if the lock was granted with a token in this table; otherwise only the session's id is.
func (b *Backend) Inspect(ctx context.Context, name string) (found driver.Status, err error) {
	found = driver.Status{Name: name, Waiters: -1}
	key, err := b.server.layout.key(name)
	if err != nil {
		return found, err
	}
	err = b.server.withConn(ctx, func(l link) (err error) {
		holders, err := b.server.find(ctx, l, name, key)
		if len(holders) > 0 {
			found = merge(holders)
		}
		return err
	})
	return found, err
}

// holder is the holder of a lock or of a permit.
type holder struct {
	driver.Status
	key    session.Key
	thread int64 // its session
}

// merge makes one status from the holders of one name.
func merge(holders []holder) driver.Status {
	st := holders[0].Status
	for _, h := range holders[1:] {
		st.Others = append(st.Others, h.Status)
	}
	return st
}

// find returns the holder of the lock, or if there is none, the holders of its permits that are in the table.
func (s *server) find(ctx context.Context, l link, name string, key session.Key) ([]holder, error) {
	h := holder{Status: driver.Status{Name: name, Waiters: -1}, key: key}
	used := "SELECT IS_USED_LOCK(" + literal(key) + ")"
	var r sqlrow.Row
	var err error
	if !s.o.NoTokens {
		r, err = l.row(ctx, used+","+rowFields+" FROM (SELECT 1) one LEFT JOIN "+s.table+" ON id="+literal(key))
	}
	if s.o.NoTokens || number(err) == errNoTable { // without the table, no lockport client was here
		r, err = l.row(ctx, used)
	}
	switch {
	case err != nil:
		return nil, err
	case !r[0].Valid && len(r) == 1:
		return nil, nil
	case !r[0].Valid:
		return s.findPermits(ctx, l, name, permit(key, 0))
	}
	h.Held, h.thread = true, r.Number(0)
	if len(r) > 1 && r.Number(1) == 1 {
		describe(r, &h.Status, 2)
	} else {
		h.Owner, h.Foreign = connectionPrefix+r.Text(0), true
	}
	return []holder{h}, nil
}

// findPermits returns the holders of name's permits, whose common key is set.
func (s *server) findPermits(ctx context.Context, l link, name string, set session.Key) (holders []holder, err error) {
	keys := make([]string, driver.MaxPermits)
	for i := range keys {
		keys[i] = literal(permit(set, i+1))
	}
	rows, err := l.rows(ctx, fmt.Sprintf("SELECT id,session,%s FROM %s WHERE id IN (%s) AND session=IS_USED_LOCK(id)", rowFields, s.table, strings.Join(keys, ",")))
	for _, r := range rows {
		h := holder{Status: driver.Status{Name: name, Waiters: -1, Permits: -1}, key: session.Key(r.Text(0)), thread: r.Number(1)}
		if r.Number(2) == 1 {
			describe(r, &h.Status, 3)
			holders = append(holders, h)
		}
	}
	return holders, err
}

// describe fills st from a lock's columns: those of rowFields, less the first, begin at first.
func describe(r sqlrow.Row, st *driver.Status, first int) {
	st.Held, st.Owner, st.Token, st.Since = true, r.Text(first), uint64(r.Number(first+1)), time.Unix(r.Number(first+2), 0)
}

// List implements driver.Inspector. It is unsupported without tokens: the server knows only hashes of names.
func (b *Backend) List(ctx context.Context, prefix string) (all []driver.Status, err error) {
	s := b.server
	if s.o.NoTokens {
		return nil, fmt.Errorf("%w: lock names are unknown without the table of fencing tokens", errors.ErrUnsupported)
	}
	err = s.withConn(ctx, func(l link) error {
		rows, err := l.rows(ctx, fmt.Sprintf("SELECT name,%s,id FROM %s WHERE LEFT(name,%d)=%s AND session=IS_USED_LOCK(id)",
			rowFields, s.table, len(prefix), binary(prefix)))
		if number(err) == errNoTable { // nobody has claimed anything yet
			return nil
		}
		permits := make(map[string][]holder) // by name
		for _, r := range rows {
			st := driver.Status{Name: r.Text(0), Waiters: -1}
			if r.Number(1) != 1 {
				continue
			}
			describe(r, &st, 2)
			if key, err := s.layout.key(st.Name); err == nil && key != session.Key(r.Text(5)) {
				st.Permits = -1
				permits[st.Name] = append(permits[st.Name], holder{Status: st})
			} else {
				all = append(all, st)
			}
		}
		for _, holders := range permits {
			all = append(all, merge(holders))
		}
		return err
	})
	return all, err
}

// Break implements driver.Breaker: it kills the holder's session. It refuses with a *driver.SharedSessionError if the session has other locks, or may
// have: the server does not list a session's locks, and the table has only those of lockport.
func (b *Backend) Break(ctx context.Context, name, owner string) error {
	return b.kill(ctx, name, owner, false)
}

// BreakSession implements driver.SessionBreaker.
func (b *Backend) BreakSession(ctx context.Context, name, owner string) error {
	return b.kill(ctx, name, owner, true)
}

// kill kills the session on which owner has name, and waits for its end. Unless all is set, it refuses if the session has other locks.
func (b *Backend) kill(ctx context.Context, name, owner string, all bool) error {
	s := b.server
	key, err := s.layout.key(name)
	if err != nil {
		return err
	}
	return s.withConn(ctx, func(l link) error {
		holders, err := s.find(ctx, l, name, key)
		var thread int64
		var others *driver.SharedSessionError
		i := slices.IndexFunc(holders, func(h holder) bool { return h.Owner == owner })
		switch {
		case err != nil:
			return err
		case i < 0:
		case holders[i].Foreign:
			thread = holders[i].thread
			others = &driver.SharedSessionError{Session: sessionName(thread), Others: -1}
		default:
			key = holders[i].key
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

// end kills the session if it still has key: since the look, another may have got it. ErrLost: it does not have it.
func (s *server) end(ctx context.Context, l link, key session.Key, thread int64) error {
	err := l.exec(ctx, fmt.Sprintf("KILL IF(IS_USED_LOCK(%s)=%d,%[2]d,0)", literal(key), thread))
	if number(err) != 0 {
		return err
	}
	if err != nil {
		return fmt.Errorf("%w: %w", driver.ErrUnknown, err)
	}
	for began := time.Now(); ; { // it ends asynchronously
		if time.Since(began) > endTime {
			return fmt.Errorf("%w: the holder's session %d does not end", driver.ErrUnknown, thread)
		}
		r, err := l.row(ctx, "SELECT SLEEP(0.002),IS_USED_LOCK("+literal(key)+")")
		if err != nil {
			return fmt.Errorf("%w: the holder's session %d was killed: %w", driver.ErrUnknown, thread, err)
		}
		if r.Number(1) != thread {
			return nil
		}
	}
}

// endTime is how long to wait for the end of a killed session.
const endTime = 2 * time.Second

// othersOfOurs returns the lockport session that has key for owner, 0 if none, and its other locks. All of them have rows in the table.
func (s *server) othersOfOurs(ctx context.Context, l link, key session.Key, owner string) (thread int64, others *driver.SharedSessionError, err error) {
	rows, err := l.rows(ctx, fmt.Sprintf("SELECT f.session,o.name FROM %[1]s f LEFT JOIN %[1]s o ON o.marker=f.marker AND o.session=f.session AND o.id<>f.id "+
		"AND IS_USED_LOCK(o.id)=f.session WHERE f.id=%[2]s AND f.owner=%[3]s AND IS_USED_LOCK(f.id)=f.session", s.table, literal(key), binary(owner)))
	if err != nil || len(rows) == 0 {
		return 0, nil, err
	}
	if thread = rows[0].Number(0); !rows[0][1].Valid {
		return thread, nil, nil
	}
	others = &driver.SharedSessionError{Session: sessionName(thread), Others: len(rows)}
	for _, r := range rows {
		others.Names = append(others.Names, r.Text(1))
	}
	return thread, others, nil
}

// sessionName names a session in errors.
func sessionName(thread int64) string { return fmt.Sprintf("connection %d", thread) }
