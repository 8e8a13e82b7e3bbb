package lib

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"net/url"

	_ "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/lockport/lockport/internal/lab/measure"
)

// most limits the connections of a floor, which needs one for each hold and each waiter. It is below the server's limit.
const most = 700

// onConnection takes a lock on its own connection. lock reports whether it was granted, unlock whether it was held. done returns the connection to
// its pool, which discards broken ones.
func onConnection(ctx context.Context, lock, unlock func(context.Context) (bool, error), done func()) (measure.Release, error) {
	granted, err := lock(ctx)
	if err := heldIf(err == nil && !granted, err); err != nil {
		done()
		return nil, err
	}
	return func(ctx context.Context) error {
		defer done()
		return unlessHeld(unlock(ctx))
	}, nil
}

func openAdvisory(ctx context.Context, c measure.Config) (l measure.Locker, err error) {
	pool, err := pgxpool.New(ctx, fmt.Sprint(c.URL, "?pool_max_conns=", most))
	if err != nil {
		return l, err
	}
	return measure.Locker{Close: func() error { pool.Close(); return nil }, Acquire: func(ctx context.Context, name string, wait bool) (measure.Release, error) {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		h := fnv.New64a()
		_, _ = h.Write([]byte(name))
		ask := func(query string) func(context.Context) (bool, error) {
			return func(ctx context.Context) (yes bool, err error) {
				err = conn.QueryRow(ctx, query, int64(h.Sum64())).Scan(&yes)
				return yes, err
			}
		}
		query := either(wait, "SELECT true FROM pg_advisory_lock($1)", "SELECT pg_try_advisory_lock($1)")
		return onConnection(ctx, ask(query), ask("SELECT pg_advisory_unlock($1)"), conn.Release)
	}}, nil
}

// openRows opens locks that are a row for each name, through database/sql with prepared statements, pgx's default.
func openRows(ctx context.Context, c measure.Config) (l measure.Locker, err error) {
	db, err := sql.Open("pgx", c.URL+"?sslmode=disable")
	if err != nil {
		return l, err
	}
	if _, err = db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS bare_locks (name text PRIMARY KEY, owner text NOT NULL, expires timestamptz NOT NULL)"); err != nil {
		return l, errors.Join(err, db.Close())
	}
	return measure.Locker{Close: db.Close, Acquire: func(ctx context.Context, name string, _ bool) (measure.Release, error) {
		owner := rand.Text()
		ask := func(ctx context.Context, query string, args ...any) (bool, error) {
			result, err := db.ExecContext(ctx, query, args...)
			if err != nil {
				return false, err
			}
			n, err := result.RowsAffected()
			return n == 1, err
		}
		granted, err := ask(ctx, `INSERT INTO bare_locks AS l VALUES ($1, $2, clock_timestamp() + $3 * interval '1 millisecond') ON CONFLICT (name) DO UPDATE
			SET owner = excluded.owner, expires = excluded.expires WHERE l.owner = '' OR l.expires <= clock_timestamp()`, name, owner, c.TTL.Milliseconds())
		if err = heldIf(err == nil && !granted, err); err != nil {
			return nil, err
		}
		return func(ctx context.Context) error {
			return unlessHeld(ask(ctx, "UPDATE bare_locks SET owner = '' WHERE name = $1 AND owner = $2", name, owner))
		}, nil
	}}, nil
}

func openNamed(_ context.Context, c measure.Config) (l measure.Locker, err error) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return l, err
	}
	// The client puts parameters into the text: preparing each statement would double the requests.
	db, err := sql.Open("mysql", u.User.String()+"@tcp("+u.Host+")"+u.Path+"?interpolateParams=true")
	if err != nil {
		return l, err
	}
	db.SetMaxIdleConns(most)
	return measure.Locker{Close: db.Close, Acquire: func(ctx context.Context, name string, wait bool) (measure.Release, error) {
		conn, err := db.Conn(ctx)
		if err != nil {
			return nil, err
		}
		ask := func(query string, args ...any) func(context.Context) (bool, error) {
			return func(ctx context.Context) (bool, error) {
				var yes sql.NullInt64
				err := conn.QueryRowContext(ctx, query, args...).Scan(&yes)
				return yes.Int64 == 1, err
			}
		}
		seconds := either(wait, 3600, 0) // practically forever
		return onConnection(ctx, ask("SELECT GET_LOCK(?, ?)", name, seconds), ask("SELECT RELEASE_LOCK(?)", name), func() { _ = conn.Close() })
	}}, nil
}
