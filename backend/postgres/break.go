package postgres

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/lockport/lockport/driver"
)

// Break implements driver.Breaker. All that the server can end is a session, and with it all its locks: it is refused where there are others, with a
// *driver.SharedSessionError, which names them with exact keys only.
func (b *Backend) Break(ctx context.Context, name, owner string) error {
	return b.endSession(ctx, name, owner, func(c *pgx.Conn, h seen) error {
		others, err := others(ctx, c, h, b.layout)
		if err != nil || others == nil {
			return err
		}
		return others
	})
}

// BreakSession implements driver.SessionBreaker.
func (b *Backend) BreakSession(ctx context.Context, name, owner string) error {
	return b.endSession(ctx, name, owner, func(*pgx.Conn, seen) error { return nil })
}

// endSession ends the session on which owner has name, unless allow has something against it.
func (b *Backend) endSession(ctx context.Context, name, owner string, allow func(*pgx.Conn, seen) error) error {
	key, err := b.layout.key(name)
	if err != nil {
		return err
	}
	return b.server.lookAtLocks(ctx, func(c *pgx.Conn) error {
		st, h, err := statusOf(ctx, c, name, key)
		switch {
		case err != nil:
			return err
		case !st.Held || st.Owner != owner:
			return fmt.Errorf("%w: %s no longer holds it", driver.ErrLost, owner)
		case h.shared:
			return fmt.Errorf("%w: it is held in shared mode, which several sessions may do at once: end them yourself (pg_terminate_backend)", driver.ErrRefused)
		}
		if err := allow(c, h); err != nil {
			return err
		}
		return terminate(ctx, c, h.pid, key)
	})
}

// others are the further locks that would be lost with the session of h; nil: none. The side locks of our own sessions do not count.
func others(ctx context.Context, c *pgx.Conn, h seen, layout layout) (*driver.SharedSessionError, error) {
	ours := ""
	if h.ours() {
		ours = " AND l.objsubid = 1"
	}
	type lock struct {
		kind int
		key  int64
	}
	found, err := rows(ctx, c, fmt.Sprintf(`SELECT l.objsubid::int, `+keySQL+` FROM pg_locks l WHERE l.locktype = 'advisory' AND l.granted AND l.pid = %d
		AND NOT (l.objsubid = 1 AND `+keySQL+` = %d)%s`, h.pid, h.key, ours),
		func(row pgx.CollectableRow) (l lock, err error) { return l, row.Scan(&l.kind, &l.key) })
	if err != nil || len(found) == 0 {
		return nil, err
	}
	others := &driver.SharedSessionError{Session: fmt.Sprintf("process %d", h.pid), Others: len(found)}
	for _, l := range found {
		if layout.exact && l.kind == 1 {
			others.Names = append(others.Names, strconv.FormatInt(l.key, 10))
		}
	}
	return others, nil
}

// terminate ends the session pid if it has key now: since it was looked at, another may have got the key, or the number.
func terminate(ctx context.Context, c *pgx.Conn, pid, key int64) error {
	var ended int
	err := c.QueryRow(ctx, fmt.Sprintf(`SELECT coalesce(sum(pg_terminate_backend(pid, 2000)::int), -1)::int FROM pg_locks
		WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND mode = 'ExclusiveLock' AND pid = %d AND classid = %d AND objid = %d
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`, pid, uint32(key>>32), uint32(key)), once).Scan(&ended)
	switch {
	case err != nil:
		return err
	case ended < 0:
		return fmt.Errorf("%w: the holder's session no longer has it", driver.ErrLost)
	case ended == 0:
		return fmt.Errorf("%w: the holder's session does not end", driver.ErrUnknown)
	}
	return nil
}
