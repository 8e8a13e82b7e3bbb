package postgres

import (
	"context"
	"fmt"

	"github.com/lockport/lockport/driver"
)

// Break implements driver.Breaker. All that the server can end is a session, and with it all its locks: it is refused where there are others, with a
// *driver.SharedSessionError.
func (b *Backend) Break(ctx context.Context, name, owner string) error {
	return b.endSession(ctx, name, owner, func(ctx context.Context, l *looker, h seen) error {
		others, err := l.others(ctx, h, name, b.layout)
		if err != nil || others == nil {
			return err
		}
		return others
	})
}

// BreakSession implements driver.SessionBreaker.
func (b *Backend) BreakSession(ctx context.Context, name, owner string) error {
	return b.endSession(ctx, name, owner, func(context.Context, *looker, seen) error { return nil })
}

// endSession ends the session on which owner has name, unless allow has something against it.
func (b *Backend) endSession(ctx context.Context, name, owner string, allow func(context.Context, *looker, seen) error) error {
	key, err := b.layout.key(name)
	if err != nil {
		return err
	}
	return b.server.lookAtLocks(ctx, func(ctx context.Context, l *looker) error {
		st, h, err := l.status(ctx, name, key)
		switch {
		case err != nil:
			return err
		case !st.Held || st.Owner != owner:
			return fmt.Errorf("%w: %s no longer holds it", driver.ErrLost, owner)
		case h.shared:
			return fmt.Errorf("%w: it is held in shared mode, which several sessions may do at once: end them yourself (pg_terminate_backend)", driver.ErrRefused)
		}
		if err := allow(ctx, l, h); err != nil {
			return err
		}
		return l.terminate(ctx, h.pid, key)
	})
}

// others are the locks besides name that would be lost with the session of h; nil: none. Our own sessions have side locks too, and say what their
// locks are called.
func (l *looker) others(ctx context.Context, h seen, name string, layout layout) (*driver.SharedSessionError, error) {
	ours := ""
	if h.ours() {
		ours = " AND l.objsubid = 1"
	}
	rows, err := l.query(ctx, fmt.Sprintf(`SELECT l.objsubid, `+keySQL+` FROM pg_locks l WHERE l.locktype = 'advisory' AND l.granted AND l.pid = %d
		AND NOT (l.objsubid = 1 AND `+keySQL+` = %d)%s`, h.pid, h.key, ours))
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	others := &driver.SharedSessionError{Session: fmt.Sprintf("process %d", h.pid), Others: len(rows)}
	switch {
	case h.ours() && !l.silent[h.pid]:
		l.answers = nil
		if err := l.ask(ctx, []seen{h}, "*"); err != nil {
			return nil, err
		}
		for _, a := range l.answers {
			if a.Name != name && len(others.Names) < others.Others {
				others.Names = append(others.Names, a.Name)
			}
		}
	case layout.exact:
		for _, row := range rows {
			if string(row[0]) == "1" {
				others.Names = append(others.Names, string(row[1]))
			}
		}
	}
	return others, nil
}

// terminate ends the session pid if it has key now: since it was looked at, another may have got the key, or the number.
func (l *looker) terminate(ctx context.Context, pid, key int64) error {
	row, err := queryRow(ctx, l.raw, fmt.Sprintf(`SELECT coalesce(sum(pg_terminate_backend(pid, 2000)::int), -1)::int FROM pg_locks
		WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND mode = 'ExclusiveLock' AND pid = %d AND classid = %d AND objid = %d
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`, pid, uint32(key>>32), uint32(key)), 1)
	switch {
	case err != nil:
		return err
	case row[0] < 0:
		return fmt.Errorf("%w: the holder's session no longer has it", driver.ErrLost)
	case row[0] == 0:
		return fmt.Errorf("%w: the holder's session does not end", driver.ErrUnknown)
	}
	return nil
}
