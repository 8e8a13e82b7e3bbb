package lib

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"net/url"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/lockport/lockport/conformance/library"
	"github.com/lockport/lockport/referee/libraries"
)

// most limits the connections of a floor, which needs one for each hold and each waiter. It is below the server's limit.
const most = 700

// onConnection takes a lock on its own connection. lock reports whether it was granted, unlock whether it was held. done returns the connection to
// its pool, which discards broken ones.
func onConnection(ctx context.Context, lock, unlock func(context.Context) (bool, error), done func()) (*library.Hold, error) {
	granted, err := lock(ctx)
	if err := libraries.HeldIf(err == nil && !granted, err); err != nil {
		done()
		return nil, err
	}
	return held(func(ctx context.Context) error {
		defer done()
		was, err := unlock(ctx)
		return library.LostIf(err == nil && !was, err)
	}, nil)
}

func openAdvisory(ctx context.Context, rawURL string, _ time.Duration) (l library.Client, err error) {
	pool, err := pgxpool.New(ctx, fmt.Sprint(rawURL, "?pool_max_conns=", most))
	if err != nil {
		return l, err
	}
	return library.Client{Close: func() error { pool.Close(); return nil }, Take: func(ctx context.Context, c library.Claim) (*library.Hold, error) {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		h := fnv.New64a()
		_, _ = h.Write([]byte(c.Name))
		ask := func(query string) func(context.Context) (bool, error) {
			return func(ctx context.Context) (yes bool, err error) {
				err = conn.QueryRow(ctx, query, int64(h.Sum64())).Scan(&yes)
				return yes, err
			}
		}
		query := libraries.Either(c.Wait, "SELECT true FROM pg_advisory_lock($1)", "SELECT pg_try_advisory_lock($1)")
		return onConnection(ctx, ask(query), ask("SELECT pg_advisory_unlock($1)"), conn.Release)
	}}, nil
}

// openRows opens locks that are a row for each name, through database/sql with prepared statements, pgx's default.
func openRows(ctx context.Context, rawURL string, _ time.Duration) (l library.Client, err error) {
	db, err := sql.Open("pgx", rawURL+"?sslmode=disable")
	if err != nil {
		return l, err
	}
	if _, err = db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS bare_locks (name text PRIMARY KEY, owner text NOT NULL, expires timestamptz NOT NULL)"); err != nil {
		return l, errors.Join(err, db.Close())
	}
	return library.Client{Close: db.Close, Take: func(ctx context.Context, c library.Claim) (*library.Hold, error) {
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
			SET owner = excluded.owner, expires = excluded.expires WHERE l.owner = '' OR l.expires <= clock_timestamp()`, c.Name, owner, c.TTL.Milliseconds())
		return held(func(ctx context.Context) error {
			was, err := ask(ctx, "UPDATE bare_locks SET owner = '' WHERE name = $1 AND owner = $2", c.Name, owner)
			return library.LostIf(err == nil && !was, err)
		}, libraries.HeldIf(err == nil && !granted, err))
	}}, nil
}

func openNamed(_ context.Context, rawURL string, _ time.Duration) (l library.Client, err error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return l, err
	}
	// The client puts parameters into the text: preparing each statement would double the requests.
	db, err := sql.Open("mysql", u.User.String()+"@tcp("+u.Host+")"+u.Path+"?interpolateParams=true")
	if err != nil {
		return l, err
	}
	db.SetMaxIdleConns(most)
	return library.Client{Close: db.Close, Take: func(ctx context.Context, c library.Claim) (*library.Hold, error) {
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
		seconds := libraries.Either(c.Wait, 3600, 0) // practically forever
		return onConnection(ctx, ask("SELECT GET_LOCK(?, ?)", c.Name, seconds), ask("SELECT RELEASE_LOCK(?)", c.Name), func() { _ = conn.Close() })
	}}, nil
}
