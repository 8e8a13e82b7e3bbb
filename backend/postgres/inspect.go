package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/session"
)

// Inspect implements driver.Inspector from pg_locks and pg_stat_activity alone. The server knows a key, a session and the session's application_name.
// So Owner names the holder's session and client, not the claim: see sessionOwner. Token and Since are unknown.
func (b *Backend) Inspect(ctx context.Context, name string) (found driver.Status, err error) {
	key, err := b.layout.key(name)
	if err != nil {
		return found, err
	}
	err = b.server.withConn(ctx, func(c *pgx.Conn) (err error) {
		found, _, err = statusOf(ctx, c, name, key)
		return err
	})
	return found, err
}

// List implements driver.Inspector. Without exact keys it returns errors.ErrUnsupported: a key does not reveal its name. Exact keys are the names,
// and locks of foreign clients are listed too. A name with waiters and no holder is not listed.
func (b *Backend) List(ctx context.Context, prefix string) (all []driver.Status, err error) {
	if !b.layout.exact {
		return nil, fmt.Errorf("%w: the server keeps hashes of names, not the names", errors.ErrUnsupported)
	}
	err = b.server.withConn(ctx, func(c *pgx.Conn) error {
		locks, err := holding(ctx, c, "true")
		if err != nil {
			return err
		}
		waiters, err := waitingClients(ctx, c)
		if err != nil {
			return err
		}
		byKey := make(map[int64][]heldLock)
		for _, h := range locks {
			byKey[h.key] = append(byKey[h.key], h)
		}
		for key, holders := range byKey {
			if name := strconv.FormatInt(key, 10); strings.HasPrefix(name, prefix) {
				all = append(all, status(name, holders, waiters.count(key)))
			}
		}
		return nil
	})
	return all, err
}

// heldLock is a held lock as the server shows it.
type heldLock struct {
	pid         int64
	application string
	key         int64
	shared      bool
	permit      int64 // the permit's number; 0: it is none
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

// status is the status of a name with these holders. A session counts once for each lock, however many readers it has. The server does not know how
// many permits there are.
func status(name string, holders []heldLock, waiters int) driver.Status {
	st := driver.Status{Name: name, Waiters: waiters}
	for i, h := range holders {
		holder := driver.Status{Name: name, Held: true, Owner: h.owner(), Foreign: !h.ours(), Waiters: waiters, Shared: h.shared}
		if h.permit > 0 {
			holder.Permits = -1
		}
		if i == 0 {
			st = holder
		} else {
			st.Others = append(st.Others, holder)
		}
	}
	return st
}

// statusOf returns who holds name, or if nobody does, its permits; and on which sessions.
func statusOf(ctx context.Context, c *pgx.Conn, name string, key int64) (st driver.Status, holders []heldLock, err error) {
	waiters, err := waitingClients(ctx, c)
	if err == nil {
		holders, err = holding(ctx, c, fmt.Sprintf("l.classid = %d AND l.objid = %d", uint32(key>>32), uint32(key)))
	}
	if err == nil && len(holders) == 0 {
		set := permit(sessionKey(key), 0)
		if holders, err = permitsOf(ctx, c, set); len(holders) > 0 {
			key = number(set)
		}
	}
	return status(name, holders, waiters.count(key)), holders, err
}

// permitsOf returns the held permits whose common key is set.
func permitsOf(ctx context.Context, c *pgx.Conn, set session.Key) (held []heldLock, err error) {
	numbers, keys := make(map[int64]int64), make([]string, driver.MaxPermits)
	for i := range keys {
		key := permit(set, i+1)
		numbers[number(key)], keys[i] = int64(i+1), string(key)
	}
	held, err = holding(ctx, c, keySQL+" = ANY ('{"+strings.Join(keys, ",")+"}')")
	for i := range held {
		held[i].permit = numbers[held[i].key]
	}
	return held, err
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

// rows returns the rows of a query, read by scan.
func rows[T any](ctx context.Context, c *pgx.Conn, sql string, scan pgx.RowToFunc[T]) ([]T, error) {
	found, err := c.Query(ctx, sql, once)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, scan)
}

// advisory selects the advisory locks of this database in pg_locks l. A name's lock has a key of 64 bits; keys of two numbers are side locks.
const advisory = `l.locktype = 'advisory' AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`

// keySQL is a lock's key of 64 bits.
const keySQL = `(l.classid::bigint << 32 | l.objid::bigint)`

// holding returns the held locks on names that match the condition.
func holding(ctx context.Context, c *pgx.Conn, condition string) ([]heldLock, error) {
	return rows(ctx, c, `SELECT l.pid::bigint, coalesce(a.application_name, ''), `+keySQL+`, l.mode <> 'ExclusiveLock'
		FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid WHERE `+advisory+` AND l.objsubid = 1 AND l.granted AND `+condition,
		func(row pgx.CollectableRow) (h heldLock, err error) {
			return h, row.Scan(&h.pid, &h.application, &h.key, &h.shared)
		})
}

// waiting counts waiters by the lock that they wait on: a name's key, or its side lock.
type waiting map[string]int

func (w waiting) count(key int64) int {
	hi, lo := side(key)
	return w[fmt.Sprintf("%d %d 1", uint32(key>>32), uint32(key))] + w[fmt.Sprintf("%d %d 2", uint32(hi), uint32(lo))]
}

// waitingClients counts the clients that wait for names.
func waitingClients(ctx context.Context, c *pgx.Conn) (waiting, error) {
	w := make(waiting)
	_, err := rows(ctx, c, `SELECT l.classid || ' ' || l.objid || ' ' || l.objsubid, count(*) FROM pg_locks l
		WHERE `+advisory+` AND (l.objsubid = 1 AND NOT l.granted OR l.objsubid = 2) GROUP BY 1`,
		func(row pgx.CollectableRow) (none struct{}, err error) {
			var on string
			var n int
			err = row.Scan(&on, &n)
			w[on] = n
			return none, err
		})
	return w, err
}

// Break implements driver.Breaker. The server can only end a session with all its locks. If there are others, Break refuses with a
// *driver.SharedSessionError, which names them with exact keys only.
func (b *Backend) Break(ctx context.Context, name, owner string) error {
	return b.endSession(ctx, name, owner, false)
}

// BreakSession implements driver.SessionBreaker.
func (b *Backend) BreakSession(ctx context.Context, name, owner string) error {
	return b.endSession(ctx, name, owner, true)
}

// endSession ends the session on which owner has name. Unless all is set, it refuses if the session has other locks.
func (b *Backend) endSession(ctx context.Context, name, owner string, all bool) error {
	key, err := b.layout.key(name)
	if err != nil {
		return err
	}
	return b.server.withConn(ctx, func(c *pgx.Conn) error {
		_, holders, err := statusOf(ctx, c, name, key)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(holders, func(h heldLock) bool { return h.owner() == owner })
		if i < 0 {
			return fmt.Errorf("%w: %s no longer holds it", driver.ErrLost, owner)
		}
		if !all {
			if err := others(ctx, c, holders[i], b.layout); err != nil {
				return err
			}
		}
		return terminate(ctx, c, holders[i])
	})
}

// others returns a *driver.SharedSessionError for the other locks on h's session; nil: none. Side locks of lockport's sessions do not count.
func others(ctx context.Context, c *pgx.Conn, h heldLock, layout layout) error {
	type lock struct {
		kind int
		key  int64
	}
	found, err := rows(ctx, c, fmt.Sprintf(`SELECT l.objsubid::int, `+keySQL+` FROM pg_locks l WHERE l.locktype = 'advisory' AND l.granted AND l.pid = %d
		AND NOT (l.objsubid = 1 AND `+keySQL+` = %d) AND (l.objsubid = 1 OR NOT %t)`, h.pid, h.key, h.ours()),
		func(row pgx.CollectableRow) (l lock, err error) { return l, row.Scan(&l.kind, &l.key) })
	if err != nil || len(found) == 0 {
		return err
	}
	others := &driver.SharedSessionError{Session: fmt.Sprintf("process %d", h.pid), Others: len(found)}
	for _, l := range found {
		if layout.exact && l.kind == 1 {
			others.Names = append(others.Names, strconv.FormatInt(l.key, 10))
		}
	}
	return others
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
