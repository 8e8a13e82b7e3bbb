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

// List implements driver.Inspector. It returns errors.ErrUnsupported.
func (b *Backend) List(context.Context, string) ([]driver.Status, error) {
	return nil, fmt.Errorf("%w: the server keeps keys of locks, not their names", errors.ErrUnsupported)
}

// looker implements session.Looker from pg_locks and pg_stat_activity alone. The server knows a key, a session and the session's application_name.
// So the owner names the holder's session and client, not the claim: see sessionOwner. Token and grant time are unknown.
type looker struct {
	*pgx.Conn
	layout session.Layout
}

// look is session.Options.Look.
func (s *server) look(ctx context.Context, f func(session.Looker) error) error {
	return s.withConn(ctx, func(c *pgx.Conn) error { return f(looker{c, s.layout}) })
}

// sessionOwner has the form of an owner id: the server's process instead of random bits, then the client as in application_name, which the server
// cuts to 63 bytes.
func sessionOwner(pid int64, client string) string {
	return fmt.Sprintf("session-%024d:%s", pid, client)
}

// Find implements session.Looker. A session counts once for each lock, however many readers it has. The server does not know how many permits there
// are.
func (l looker) Find(ctx context.Context, _ string, key session.Key) (holders []session.Holder, waiters int, err error) {
	holders, err = l.holding(ctx, key)
	if err == nil && len(holders) == 0 {
		if holders, err = l.holding(ctx, l.layout.Permits(key)...); len(holders) > 0 {
			key = l.layout.Permit(key, 0)
		}
		for i := range holders {
			holders[i].Permits = -1
		}
	}
	if err != nil {
		return nil, 0, err
	}
	hi, lo := side(number(key)) // waiters beyond the server's queue have the side lock
	err = l.QueryRow(ctx, fmt.Sprintf(`SELECT count(*) FROM pg_locks l WHERE `+advisory+` AND (l.objsubid = 1 AND NOT l.granted AND `+keySQL+` = %s
		OR l.objsubid = 2 AND l.classid = %d AND l.objid = %d)`, key, uint32(hi), uint32(lo)), once).Scan(&waiters)
	return holders, waiters, err
}

// advisory selects the advisory locks of this database in pg_locks l. A name's lock has a key of 64 bits; keys of two numbers are side locks.
const advisory = `l.locktype = 'advisory' AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`

// keySQL is a lock's key of 64 bits.
const keySQL = `(l.classid::bigint << 32 | l.objid::bigint)`

// holding returns the held locks with these keys.
func (l looker) holding(ctx context.Context, keys ...session.Key) ([]session.Holder, error) {
	numbers := make([]int64, len(keys))
	for i, key := range keys {
		numbers[i] = number(key)
	}
	found, err := l.Query(ctx, `SELECT coalesce(l.pid, 0)::bigint, CASE WHEN l.pid IS NULL THEN 'prepared transaction' ELSE coalesce(a.application_name, '') END, `+keySQL+`, l.mode <> 'ExclusiveLock'
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

// Others implements session.Looker. Side locks of lockport's sessions do not count.
func (l looker) Others(ctx context.Context, h session.Holder) (*driver.SharedSessionError, error) {
	others := &driver.SharedSessionError{Session: fmt.Sprintf("process %d", h.Session)}
	err := l.QueryRow(ctx, fmt.Sprintf(`SELECT count(*) FROM pg_locks l WHERE l.locktype = 'advisory' AND l.granted AND l.pid = %d
		AND NOT (l.objsubid = 1 AND `+keySQL+` = %s) AND (l.objsubid = 1 OR %t)`, h.Session, h.Key, h.Foreign), once).Scan(&others.Others)
	return others, err
}

// End implements session.Looker.
func (l looker) End(ctx context.Context, h session.Holder) error {
	if h.Session == 0 {
		return fmt.Errorf("%w: a prepared transaction has it: end that with ROLLBACK PREPARED", driver.ErrRefused)
	}
	var ended int
	err := l.QueryRow(ctx, fmt.Sprintf(`SELECT coalesce(sum(pg_terminate_backend(pid, 2000)::int), -1)::int FROM pg_locks l
		WHERE `+advisory+` AND granted AND objsubid = 1 AND (mode <> 'ExclusiveLock') = %t AND pid = %d AND `+keySQL+` = %s`,
		h.Shared, h.Session, h.Key), once).Scan(&ended)
	canceled := hasCode(err, "57014") // while it waited for the end of the session
	switch {
	case err != nil && (canceled || refusal(l.Conn, err) == nil):
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
