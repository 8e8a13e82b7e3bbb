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

// looker implements session.Looker. The owner is known if the lock was granted with a token in the table; otherwise only the session's id is.
type looker struct {
	link
	*server
}

// look runs f with a connection, in transactions of one statement. It holds no locks, and is closed afterwards. A sql_mode could pad markers.
func (s *server) look(ctx context.Context, f func(session.Looker) error) error {
	l, _, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer l.Close()
	if err = l.exec(ctx, "SET SESSION autocommit=1,SESSION time_zone='+00:00',SESSION sql_mode=''"); err == nil {
		err = f(looker{l, s})
	}
	return classify(ctx, err)
}

// holders returns the holders in the table whose rows match the condition.
func (l looker) holders(ctx context.Context, condition string) (all []session.Holder, err error) {
	rows, err := l.rows(ctx, "SELECT "+rowFields+" FROM "+l.table+" WHERE "+isHeld+" AND "+condition)
	if number(err) == errNoTable { // nobody has claimed anything yet
		return nil, nil
	}
	for _, r := range rows {
		all = append(all, holderIn(r))
	}
	return all, err
}

// Find implements session.Looker. Of permits it finds the holders that are in the table. Nobody knows who waits.
func (l looker) Find(ctx context.Context, name string, key session.Key) ([]session.Holder, int, error) {
	used := "SELECT IS_USED_LOCK(" + literal(key) + ")"
	var r sqlrow.Row
	var err error
	if !l.o.NoTokens {
		r, err = l.row(ctx, used+","+rowFields+" FROM (SELECT 1) one LEFT JOIN "+l.table+" ON id="+literal(key)+" AND "+isHeld)
	}
	if l.o.NoTokens || number(err) == errNoTable { // without the table, no lockport client was here
		r, err = l.row(ctx, used)
	}
	switch {
	case err != nil:
		return nil, -1, err
	case len(r) > 1 && r[1].Valid:
		return []session.Holder{holderIn(r[1:])}, -1, nil
	case r[0].Valid:
		st := driver.Status{Name: name, Held: true, Foreign: true, Owner: "connection:" + r.Text(0), Waiters: -1}
		return []session.Holder{{Status: st, Key: key, Session: r.Number(0)}}, -1, nil
	case len(r) == 1:
		return nil, -1, nil
	}
	var ids []string
	for _, permit := range l.layout.Permits(key) {
		ids = append(ids, literal(permit))
	}
	holders, err := l.holders(ctx, "id IN ("+strings.Join(ids, ",")+")")
	for i := range holders {
		holders[i].Permits = -1
	}
	return holders, -1, err
}

// List implements driver.Inspector. The table also has locks of clients with another prefix: they have other keys. It is unsupported without tokens:
// the server knows only hashes of names.
func (b *Backend) List(ctx context.Context, prefix string) (all []driver.Status, err error) {
	if b.server.o.NoTokens {
		return nil, fmt.Errorf("%w: lock names are unknown without the table of fencing tokens", errors.ErrUnsupported)
	}
	err = b.server.look(ctx, func(l session.Looker) error {
		holders, err := l.(looker).holders(ctx, fmt.Sprintf("LEFT(name,%d)=%s ORDER BY name", len(prefix), binary(prefix)))
		permits := make(map[string][]session.Holder) // by name
		var last session.Key
		var keys []session.Key // of the permits of last
		for _, h := range holders {
			key, err := b.server.layout.Key(h.Name)
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil:
				continue
			case h.Key == key:
				all = append(all, h.Status)
				continue
			case last != key:
				last, keys = key, b.server.layout.Permits(key)
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

// Others implements session.Looker. All locks of a lockport session have rows in the table. The server lists no locks, so those of other sessions are
// unknown.
func (l looker) Others(ctx context.Context, h session.Holder) (*driver.SharedSessionError, error) {
	others := &driver.SharedSessionError{Session: fmt.Sprintf("connection %d", h.Session), Others: -1}
	if h.Foreign {
		return others, nil
	}
	all, err := l.holders(ctx, fmt.Sprintf("session=%d", h.Session))
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

// End implements session.Looker. It waits until the session no longer has the lock.
func (l looker) End(ctx context.Context, h session.Holder) error {
	err := l.exec(ctx, fmt.Sprintf("KILL IF(IS_USED_LOCK(%s)=%d,%[2]d,0)", literal(h.Key), h.Session))
	if number(err) != 0 {
		return err
	}
	if err != nil {
		return fmt.Errorf("%w: %w", driver.ErrUnknown, err)
	}
	for began := time.Now(); ; { // it ends asynchronously
		if time.Since(began) > 2*time.Second {
			return fmt.Errorf("%w: the holder's session %d does not end", driver.ErrUnknown, h.Session)
		}
		r, err := l.row(ctx, "SELECT SLEEP(0.002),IS_USED_LOCK("+literal(h.Key)+")")
		if err != nil {
			return fmt.Errorf("%w: the holder's session %d was killed: %w", driver.ErrUnknown, h.Session, err)
		}
		if r.Number(1) != h.Session {
			return nil
		}
	}
}
