package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/session"
)

// Inspect implements driver.Inspector from pg_locks and pg_stat_activity alone. The server knows a key, a session and the session's application_name.
// So Owner names the holder's session and client, not the claim: see sessionOwner. Token and Since are unknown.
func (b *Backend) Inspect(ctx context.Context, name string) (found driver.Status, err error) {
	key, err := b.layout.Key(name)
	if err != nil {
		return found, err
	}
	err = b.server.withConn(ctx, func(c *pgx.Conn) (err error) {
		found, _, err = b.statusOf(ctx, c, name, key)
		return err
	})
	return found, err
}

// List implements driver.Inspector. It returns errors.ErrUnsupported.
func (b *Backend) List(context.Context, string) ([]driver.Status, error) {
	return nil, fmt.Errorf("%w: the server keeps keys of locks, not their names", errors.ErrUnsupported)
}

// heldLock is a held lock as the server shows it.
type heldLock struct {
	pid         int64
	application string
	key         int64
	shared      bool
}

// ours reports whether the session belongs to a lockport client.
func (h heldLock) ours() bool { return strings.HasPrefix(h.application, applicationPrefix) }

// owner identifies the holder.
func (h heldLock) owner() string {
	if client := strings.TrimSpace(strings.TrimPrefix(h.application, applicationPrefix)); h.ours() && client != "" {
		return sessionOwner(h.pid, client)
	}
	return fmt.Sprintf("pid %d (%s)", h.pid, session.OneLine(h.application))
}

// sessionOwner has the form of an owner id: the server's process instead of random bits, then the client as in application_name, which the server
// cuts to 63 bytes.
func sessionOwner(pid int64, client string) string {
	return fmt.Sprintf("session-%024d:%s", pid, client)
}

// statusOf returns who holds name, or if nobody does, its permits; and on which sessions. A session counts once for each lock, however many readers
// it has. The server does not know how many permits there are.
func (b *Backend) statusOf(ctx context.Context, c *pgx.Conn, name string, key session.Key) (st driver.Status, holders []heldLock, err error) {
	permits := 0
	holders, err = holding(ctx, c, key)
	if err == nil && len(holders) == 0 {
		set, keys := b.layout.Permit(key, 0), make([]session.Key, driver.MaxPermits)
		for i := range keys {
			keys[i] = b.layout.Permit(set, i+1)
		}
		if holders, err = holding(ctx, c, keys...); len(holders) > 0 {
			key, permits = set, -1
		}
	}
	if err != nil {
		return st, nil, err
	}
	var waiters int // in the server's queue, and those that hold the side lock
	hi, lo := side(number(key))
	err = c.QueryRow(ctx, fmt.Sprintf(`SELECT count(*) FROM pg_locks l WHERE `+advisory+` AND (l.objsubid = 1 AND NOT l.granted AND `+keySQL+` = %s
		OR l.objsubid = 2 AND l.classid = %d AND l.objid = %d)`, key, uint32(hi), uint32(lo)), once).Scan(&waiters)
	st = driver.Status{Name: name, Waiters: waiters}
	for i, h := range holders {
		holder := driver.Status{Name: name, Held: true, Owner: h.owner(), Foreign: !h.ours(), Waiters: waiters, Shared: h.shared, Permits: permits}
		if i == 0 {
			st = holder
		} else {
			st.Others = append(st.Others, holder)
		}
	}
	return st, holders, err
}

// withConn runs f with a connection of its own.
func (s *server) withConn(ctx context.Context, f func(c *pgx.Conn) error) error {
	l, _, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer l.close()
	return classify(l.use(f))
}

// advisory selects the advisory locks of this database in pg_locks l. A name's lock has a key of 64 bits; keys of two numbers are side locks.
const advisory = `l.locktype = 'advisory' AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`

// keySQL is a lock's key of 64 bits.
const keySQL = `(l.classid::bigint << 32 | l.objid::bigint)`

// holding returns the held locks with these keys.
func holding(ctx context.Context, c *pgx.Conn, keys ...session.Key) ([]heldLock, error) {
	numbers := make([]int64, len(keys))
	for i, key := range keys {
		numbers[i] = number(key)
	}
	found, err := c.Query(ctx, `SELECT l.pid::bigint, coalesce(a.application_name, ''), `+keySQL+`, l.mode <> 'ExclusiveLock'
		FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid WHERE `+advisory+` AND l.objsubid = 1 AND l.granted AND `+keySQL+` = ANY ($1)`, once, numbers)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, func(row pgx.CollectableRow) (h heldLock, err error) {
		return h, row.Scan(&h.pid, &h.application, &h.key, &h.shared)
	})
}

// Break implements driver.Breaker. The server can only end a session with all its locks. If there are others, Break refuses with a
// *driver.SharedSessionError, which counts them.
func (b *Backend) Break(ctx context.Context, name, owner string) error {
	return b.endSession(ctx, name, owner, false)
}

// BreakSession implements driver.SessionBreaker.
func (b *Backend) BreakSession(ctx context.Context, name, owner string) error {
	return b.endSession(ctx, name, owner, true)
}

// endSession ends the session on which owner has name. Unless all is set, it refuses if the session has other locks.
func (b *Backend) endSession(ctx context.Context, name, owner string, all bool) error {
	key, err := b.layout.Key(name)
	if err != nil {
		return err
	}
	return b.server.withConn(ctx, func(c *pgx.Conn) error {
		_, holders, err := b.statusOf(ctx, c, name, key)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(holders, func(h heldLock) bool { return h.owner() == owner })
		if i < 0 {
			return fmt.Errorf("%w: %s no longer holds it", driver.ErrLost, owner)
		}
		if !all {
			if err := others(ctx, c, holders[i]); err != nil {
				return err
			}
		}
		return terminate(ctx, c, holders[i])
	})
}

// others returns a *driver.SharedSessionError for the other locks on h's session; nil: none. Side locks of lockport's sessions do not count.
func others(ctx context.Context, c *pgx.Conn, h heldLock) error {
	var n int
	err := c.QueryRow(ctx, fmt.Sprintf(`SELECT count(*) FROM pg_locks l WHERE l.locktype = 'advisory' AND l.granted AND l.pid = %d
		AND NOT (l.objsubid = 1 AND `+keySQL+` = %d) AND (l.objsubid = 1 OR NOT %t)`, h.pid, h.key, h.ours()), once).Scan(&n)
	if err != nil || n == 0 {
		return err
	}
	return &driver.SharedSessionError{Session: fmt.Sprintf("process %d", h.pid), Others: n}
}

// terminate ends the session of h if it still has the key: since the look, another session may have got the key or the number.
func terminate(ctx context.Context, c *pgx.Conn, h heldLock) error {
	var ended int
	err := c.QueryRow(ctx, fmt.Sprintf(`SELECT coalesce(sum(pg_terminate_backend(pid, 2000)::int), -1)::int FROM pg_locks
		WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND (mode <> 'ExclusiveLock') = %t AND pid = %d AND classid = %d AND objid = %d
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`, h.shared, h.pid, uint32(h.key>>32), uint32(h.key)), once).Scan(&ended)
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
