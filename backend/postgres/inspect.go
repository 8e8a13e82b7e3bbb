package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/lockport/lockport/driver"
)

// advisory are the advisory locks of this database, as pg_locks l has them. A name's is one on a key of 64 bits; keys of two numbers are side locks.
const advisory = `l.locktype = 'advisory' AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`

// keySQL is the key of a lock on one of 64 bits.
const keySQL = `(l.classid::bigint << 32 | l.objid::bigint)`

// holding are the locks on names that sessions have, those that match the condition too.
func (l *looker) holding(ctx context.Context, condition string) ([]seen, error) {
	rows, err := l.query(ctx, `SELECT l.pid, coalesce(a.application_name, ''), `+keySQL+`, (l.mode <> 'ExclusiveLock')::int
		FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid WHERE `+advisory+` AND l.objsubid = 1 AND l.granted AND `+condition)
	if err != nil {
		return nil, err
	}
	var all []seen
	for _, row := range rows {
		h := seen{application: string(row[1]), shared: string(row[3]) == "1"}
		pid, badPID := strconv.ParseInt(string(row[0]), 10, 64)
		key, badKey := strconv.ParseInt(string(row[2]), 10, 64)
		if err := errors.Join(badPID, badKey); err != nil {
			return nil, err
		}
		h.pid, h.key = pid, key
		all = append(all, h)
	}
	return all, nil
}

// waiting says how many wait for a name, by what they wait on: its key, or the side lock that belongs to that.
type waiting map[string]int

func (w waiting) count(key int64) int {
	hi, lo := side(key)
	return w[fmt.Sprintf("%d %d 1", uint32(key>>32), uint32(key))] + w[fmt.Sprintf("%d %d 2", uint32(hi), uint32(lo))]
}

// waiting counts those who wait for names.
func (l *looker) waiting(ctx context.Context) (waiting, error) {
	rows, err := l.query(ctx, `SELECT l.classid || ' ' || l.objid || ' ' || l.objsubid, count(*) FROM pg_locks l
		WHERE `+advisory+` AND (l.objsubid = 1 AND NOT l.granted OR l.objsubid = 2) GROUP BY 1`)
	w := make(waiting)
	for _, row := range rows {
		w[string(row[0])], _ = strconv.Atoi(string(row[1]))
	}
	return w, err
}

// query is the rows that a query gives.
func (l *looker) query(ctx context.Context, sql string) ([][][]byte, error) {
	results, err := l.raw.Exec(ctx, sql).ReadAll()
	if err != nil || len(results) != 1 {
		return nil, errors.Join(err)
	}
	return results[0].Rows, nil
}

// status says who holds name, and on which session.
func (l *looker) status(ctx context.Context, name string, key int64) (driver.Status, seen, error) {
	waiters, err := l.waiting(ctx)
	if err != nil {
		return driver.Status{}, seen{}, err
	}
	free := driver.Status{Name: name, Waiters: waiters.count(key)}
	holders, err := l.holding(ctx, fmt.Sprintf("l.classid = %d AND l.objid = %d", uint32(key>>32), uint32(key)))
	if err != nil || len(holders) == 0 {
		return free, seen{}, err
	}
	h := holders[0]
	if err := l.ask(ctx, holders[:1], strconv.FormatInt(key, 10)); err != nil {
		return free, h, err
	}
	for _, a := range l.answers {
		if a.Name == name {
			return a.status(free.Waiters), h, nil
		}
	}
	if len(l.answers) == 0 && h.ours() && !l.silent[h.pid] { // it has given it back meanwhile, or has ended
		return free, h, nil
	}
	return h.status(name, free.Waiters), h, nil
}

// Inspect implements driver.Inspector. The holder is asked for owner and token: one that does not answer within 2 s, or is no client of lockport, is shown
// as its process id and application_name. A transaction-scoped lock is that of a foreign client.
func (b *Backend) Inspect(ctx context.Context, name string) (st driver.Status, err error) {
	key, err := b.layout.key(name)
	if err != nil {
		return driver.Status{}, err
	}
	var found driver.Status
	err = b.server.lookAtLocks(ctx, func(ctx context.Context, l *looker) (err error) {
		found, _, err = l.status(ctx, name, key)
		return err
	})
	if err != nil {
		return driver.Status{}, err
	}
	return found, nil
}

// List implements driver.Inspector. A key does not say its name, so all clients that hold locks are asked. Not seen are locks of foreign clients, and names
// that are waited for and held by nobody. One that does not answer within 2 s (it is stopped, or cut off, and its session ends with the TTL) makes the list
// incomplete, which is an error beside what is known. With exact keys, which are names, all that are held are seen.
func (b *Backend) List(ctx context.Context, prefix string) ([]driver.Status, error) {
	var all []driver.Status
	var incomplete error
	err := b.server.lookAtLocks(ctx, func(ctx context.Context, l *looker) error {
		condition := "a.application_name LIKE 'lockport%'"
		if b.layout.exact {
			condition = "true"
		}
		locks, err := l.holding(ctx, condition)
		if err != nil {
			return err
		}
		waiters, err := l.waiting(ctx)
		if err != nil {
			return err
		}
		if err := l.ask(ctx, locks, "*"+prefix); err != nil {
			return err
		}
		answered := make(map[string]bool)
		for _, a := range l.answers {
			key, err := b.layout.key(a.Name)
			if err == nil && strings.HasPrefix(a.Name, prefix) {
				all = append(all, a.status(waiters.count(key)))
				answered[a.Name] = true
			}
		}
		if !b.layout.exact {
			incomplete = l.unheard(locks)
			return nil
		}
		for _, h := range locks {
			name := strconv.FormatInt(h.key, 10)
			if strings.HasPrefix(name, prefix) && !answered[name] && (!h.ours() || l.silent[h.pid]) {
				all = append(all, h.status(name, waiters.count(h.key)))
				answered[name] = true
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, incomplete
}

// unheard says which sessions have some of the locks and have not said what those are called.
func (l *looker) unheard(locks []seen) error {
	count := make(map[string]int)
	for _, h := range locks {
		if l.silent[h.pid] {
			count[h.owner()]++
		}
	}
	var who []string
	for _, owner := range slices.Sorted(maps.Keys(count)) {
		who = append(who, fmt.Sprintf("%s has %d and does not say which", owner, count[owner]))
	}
	if who == nil {
		return nil
	}
	return fmt.Errorf("%w: the list is not complete: %s; who does not answer is stopped, or cut off", driver.ErrUnavailable, strings.Join(who, ", "))
}
