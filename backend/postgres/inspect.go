package postgres

import (
	"context"
	"errors"
	"fmt"
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
	err = b.server.withConn(ctx, func(c *pgx.Conn) error {
		holders, waiters, err := b.find(ctx, c, key)
		found = session.StatusOf(name, waiters, holders)
		return err
	})
	return found, err
}

// List implements driver.Inspector. It returns errors.ErrUnsupported.
func (b *Backend) List(context.Context, string) ([]driver.Status, error) {
	return nil, fmt.Errorf("%w: the server keeps keys of locks, not their names", errors.ErrUnsupported)
}

// sessionOwner has the form of an owner id: the server's process instead of random bits, then the client as in application_name, which the server
// cuts to 63 bytes.
func sessionOwner(pid int64, client string) string {
	return fmt.Sprintf("session-%024d:%s", pid, client)
}

// find returns who holds name, or if nobody does, its permits; and how many sessions wait. A session counts once for each lock, however many readers
// it has. The server does not know how many permits there are.
func (b *Backend) find(ctx context.Context, c *pgx.Conn, key session.Key) (holders []session.Holder, waiters int, err error) {
	holders, err = holding(ctx, c, key)
	if err == nil && len(holders) == 0 {
		set, keys := b.layout.Permit(key, 0), make([]session.Key, driver.MaxPermits)
		for i := range keys {
			keys[i] = b.layout.Permit(set, i+1)
		}
		if holders, err = holding(ctx, c, keys...); len(holders) > 0 {
			key = set
		}
		for i := range holders {
			holders[i].Permits = -1
		}
	}
	if err != nil {
		return nil, 0, err
	}
	hi, lo := side(number(key)) // waiters beyond the server's queue have the side lock
	err = c.QueryRow(ctx, fmt.Sprintf(`SELECT count(*) FROM pg_locks l WHERE `+advisory+` AND (l.objsubid = 1 AND NOT l.granted AND `+keySQL+` = %s
		OR l.objsubid = 2 AND l.classid = %d AND l.objid = %d)`, key, uint32(hi), uint32(lo)), once).Scan(&waiters)
	return holders, waiters, err
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
func holding(ctx context.Context, c *pgx.Conn, keys ...session.Key) ([]session.Holder, error) {
	numbers := make([]int64, len(keys))
	for i, key := range keys {
		numbers[i] = number(key)
	}
	found, err := c.Query(ctx, `SELECT l.pid::bigint, coalesce(a.application_name, ''), `+keySQL+`, l.mode <> 'ExclusiveLock'
		FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid WHERE `+advisory+` AND l.objsubid = 1 AND l.granted AND `+keySQL+` = ANY ($1)`, once, numbers)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, func(row pgx.CollectableRow) (h session.Holder, err error) {
		var application string
		var key int64
		err = row.Scan(&h.Session, &application, &key, &h.Shared)
		client, ours := strings.CutPrefix(application, applicationPrefix)
		h.Held, h.Key, h.Foreign = true, sessionKey(key), !ours
		if client = strings.TrimSpace(client); ours && client != "" {
			h.Owner = sessionOwner(h.Session, client)
		} else {
			h.Owner = fmt.Sprintf("pid %d (%s)", h.Session, session.OneLine(application))
		}
		return h, err
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
		holders, _, err := b.find(ctx, c, key)
		if err != nil {
			return err
		}
		return session.Break(holders, owner, all,
			func(h session.Holder) (*driver.SharedSessionError, error) { return others(ctx, c, h) },
			func(h session.Holder) error { return terminate(ctx, c, h) })
	})
}

// others counts the other locks of h's session. Side locks of lockport's sessions do not count.
func others(ctx context.Context, c *pgx.Conn, h session.Holder) (*driver.SharedSessionError, error) {
	others := &driver.SharedSessionError{Session: fmt.Sprintf("process %d", h.Session)}
	err := c.QueryRow(ctx, fmt.Sprintf(`SELECT count(*) FROM pg_locks l WHERE l.locktype = 'advisory' AND l.granted AND l.pid = %d
		AND NOT (l.objsubid = 1 AND `+keySQL+` = %s) AND (l.objsubid = 1 OR %t)`, h.Session, h.Key, h.Foreign), once).Scan(&others.Others)
	return others, err
}

// terminate ends the session of h if it still has the key: since the look, another session may have got the key or the number.
func terminate(ctx context.Context, c *pgx.Conn, h session.Holder) error {
	var ended int
	err := c.QueryRow(ctx, fmt.Sprintf(`SELECT coalesce(sum(pg_terminate_backend(pid, 2000)::int), -1)::int FROM pg_locks l
		WHERE `+advisory+` AND granted AND objsubid = 1 AND (mode <> 'ExclusiveLock') = %t AND pid = %d AND `+keySQL+` = %s`,
		h.Shared, h.Session, h.Key), once).Scan(&ended)
	cancelled := hasCode(err, "57014") // while it waited for the end of the session
	switch {
	case err != nil && (cancelled || refusal(c, err) == nil):
		return fmt.Errorf("%w: whether the holder's session has ended: %w", driver.ErrUnknown, err)
	case err != nil:
		return err
	case ended < 0:
		return fmt.Errorf("%w: the holder's session no longer has it", driver.ErrLost)
	case ended == 0:
		return fmt.Errorf("%w: the holder's session does not end", driver.ErrUnknown)
	}
	return nil
}
