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

// A row of the table describes a held lock or permit if the lock and the session's marker belong to the row's session.
const (
	isHeld    = "session=IS_USED_LOCK(id) AND session=IS_USED_LOCK(marker)"
	rowFields = "id,session,name,owner,token,UNIX_TIMESTAMP(at)"
)

// holderIn returns the holder that the rowFields describe.
func holderIn(r sqlrow.Row) session.Holder {
	return session.Holder{Key: session.Key(r.Text(0)), Session: r.Number(1), Status: driver.Status{Name: r.Text(2), Held: true, Owner: r.Text(3),
		Token: uint64(r.Number(4)), Since: time.Unix(r.Number(5), 0), Waiters: -1}}
}

// permits returns the keys of all permits of the name whose lock is key.
func (s *server) permits(key session.Key) []session.Key {
	set, keys := s.layout.Permit(key, 0), make([]session.Key, driver.MaxPermits)
	for i := range keys {
		keys[i] = s.layout.Permit(set, i+1)
	}
	return keys
}

// holders returns the holders in the table whose rows match the condition.
func (s *server) holders(ctx context.Context, l link, condition string) (all []session.Holder, err error) {
	rows, err := l.rows(ctx, "SELECT "+rowFields+" FROM "+s.table+" WHERE "+isHeld+" AND "+condition)
	if number(err) == errNoTable { // nobody has claimed anything yet
		return nil, nil
	}
	for _, r := range rows {
		all = append(all, holderIn(r))
	}
	return all, err
}

// Inspect implements driver.Inspector. The owner is known if the lock was granted with a token in this table; otherwise only the session's id is.
func (b *Backend) Inspect(ctx context.Context, name string) (found driver.Status, err error) {
	key, err := b.server.layout.Key(name)
	if err != nil {
		return found, err
	}
	err = b.server.withConn(ctx, func(l link) error {
		holders, err := b.server.find(ctx, l, name, key)
		found = session.StatusOf(name, -1, holders)
		return err
	})
	return found, err
}

// find returns the holder of the lock, or if there is none, the holders of its permits that are in the table.
func (s *server) find(ctx context.Context, l link, name string, key session.Key) ([]session.Holder, error) {
	used := "SELECT IS_USED_LOCK(" + literal(key) + ")"
	var r sqlrow.Row
	var err error
	if !s.o.NoTokens {
		r, err = l.row(ctx, used+","+rowFields+" FROM (SELECT 1) one LEFT JOIN "+s.table+" ON id="+literal(key)+" AND "+isHeld)
	}
	if s.o.NoTokens || number(err) == errNoTable { // without the table, no lockport client was here
		r, err = l.row(ctx, used)
	}
	switch {
	case err != nil:
		return nil, err
	case len(r) > 1 && r[1].Valid:
		return []session.Holder{holderIn(r[1:])}, nil
	case r[0].Valid:
		st := driver.Status{Name: name, Held: true, Foreign: true, Owner: connectionPrefix + r.Text(0), Waiters: -1}
		return []session.Holder{{Status: st, Key: key, Session: r.Number(0)}}, nil
	case len(r) == 1:
		return nil, nil
	}
	var ids []string
	for _, permit := range s.permits(key) {
		ids = append(ids, literal(permit))
	}
	holders, err := s.holders(ctx, l, "id IN ("+strings.Join(ids, ",")+")")
	for i := range holders {
		holders[i].Permits = -1
	}
	return holders, err
}

// List implements driver.Inspector. The table also has locks of clients with another prefix: they have other keys. It is unsupported without tokens:
// the server knows only hashes of names.
func (b *Backend) List(ctx context.Context, prefix string) (all []driver.Status, err error) {
	s := b.server
	if s.o.NoTokens {
		return nil, fmt.Errorf("%w: lock names are unknown without the table of fencing tokens", errors.ErrUnsupported)
	}
	err = s.withConn(ctx, func(l link) error {
		holders, err := s.holders(ctx, l, fmt.Sprintf("LEFT(name,%d)=%s ORDER BY name", len(prefix), binary(prefix)))
		permits := make(map[string][]session.Holder) // by name
		var last session.Key
		var keys []session.Key // of the permits of last
		for _, h := range holders {
			key, err := s.layout.Key(h.Name)
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil:
				continue
			case h.Key == key:
				all = append(all, h.Status)
				continue
			case last != key:
				last, keys = key, s.permits(key)
			}
			if slices.Contains(keys, h.Key) {
				h.Permits = -1
				permits[h.Name] = append(permits[h.Name], h)
			}
		}
		for name, holders := range permits {
			all = append(all, session.StatusOf(name, -1, holders))
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
	key, err := s.layout.Key(name)
	if err != nil {
		return err
	}
	return s.withConn(ctx, func(l link) error {
		holders, err := s.find(ctx, l, name, key)
		if err != nil {
			return err
		}
		return session.Break(holders, owner, all,
			func(h session.Holder) (*driver.SharedSessionError, error) { return s.others(ctx, l, h) },
			func(h session.Holder) error { return s.end(ctx, l, h.Key, h.Session) })
	})
}

// others returns the other locks of h's session; -1: unknown. All locks of a lockport session have rows in the table.
func (s *server) others(ctx context.Context, l link, h session.Holder) (*driver.SharedSessionError, error) {
	others := &driver.SharedSessionError{Session: fmt.Sprintf("connection %d", h.Session), Others: -1}
	if h.Foreign {
		return others, nil
	}
	all, err := s.holders(ctx, l, fmt.Sprintf("session=%d", h.Session))
	for _, other := range all {
		if others.Others++; other.Key != h.Key || other.Owner != h.Owner {
			others.Names = append(others.Names, other.Name)
		}
	}
	if err == nil && len(others.Names) == len(all) {
		err = fmt.Errorf("%w: %q no longer has it", driver.ErrLost, h.Owner)
	}
	return others, err
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
