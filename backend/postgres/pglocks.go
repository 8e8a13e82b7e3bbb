package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockport/lockport/driver"
)

// inspector is a connection on which somebody looks at locks.
type inspector struct{ raw *pgconn.PgConn }

// lookAtLocks opens a connection to look at locks, and runs f with it. It returns soon after ctx ends.
func (s *server) lookAtLocks(ctx context.Context, f func(ctx context.Context, i *inspector) error) error {
	done := make(chan error, 1)
	go func() {
		raw, _, err := s.connect(ctx)
		if err == nil {
			err = f(ctx, &inspector{raw})
			closeRaw(raw)
		}
		if err != nil {
			err = classify(err)
		}
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: no answer of the server: %w", driver.ErrUnavailable, context.Cause(ctx))
	}
}

// query is the rows that a query gives.
func (i *inspector) query(ctx context.Context, sql string) ([][][]byte, error) {
	results, err := i.raw.Exec(ctx, sql).ReadAll()
	if err != nil || len(results) != 1 {
		return nil, errors.Join(err)
	}
	return results[0].Rows, nil
}

// advisory are the advisory locks of this database, as pg_locks l has them. A name's is one on a key of 64 bits; keys of two numbers are side locks.
const advisory = `l.locktype = 'advisory' AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`

// keySQL is the key of a lock on one of 64 bits.
const keySQL = `(l.classid::bigint << 32 | l.objid::bigint)`

// holding are the locks on names that sessions have, those that match the condition too.
func (i *inspector) holding(ctx context.Context, condition string) ([]seen, error) {
	rows, err := i.query(ctx, `SELECT l.pid, coalesce(a.application_name, ''), `+keySQL+`, (l.mode <> 'ExclusiveLock')::int
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

// waiting counts the clients that wait for names.
func (i *inspector) waiting(ctx context.Context) (waiting, error) {
	rows, err := i.query(ctx, `SELECT l.classid || ' ' || l.objid || ' ' || l.objsubid, count(*) FROM pg_locks l
		WHERE `+advisory+` AND (l.objsubid = 1 AND NOT l.granted OR l.objsubid = 2) GROUP BY 1`)
	w := make(waiting)
	for _, row := range rows {
		w[string(row[0])], _ = strconv.Atoi(string(row[1]))
	}
	return w, err
}
