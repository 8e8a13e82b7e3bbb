package lib

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"hash/fnv"
	"net/url"
	"sync"

	_ "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lab/measure"
)

// connections has one for each hold and each waiter.
type connections[T any] struct {
	open func(ctx context.Context) (T, error)

	mu   sync.Mutex
	free []T
}

func (c *connections[T]) give(conn T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.free = append(c.free, conn)
}

func (c *connections[T]) take(ctx context.Context) (conn T, err error) {
	c.mu.Lock()
	if n := len(c.free); n > 0 {
		defer c.mu.Unlock()
		conn, c.free = c.free[n-1], c.free[:n-1]
		return conn, nil
	}
	c.mu.Unlock()
	return c.open(ctx)
}

// acquire takes a lock on a connection of its own, with functions that ask whether it was granted, and whether it was held. A connection with an error may be
// broken, and is not used again.
func (c *connections[T]) acquire(ctx context.Context, lock, unlock func(ctx context.Context, conn T) (bool, error)) (measure.Release, error) {
	conn, err := c.take(ctx)
	if err != nil {
		return nil, err
	}
	granted, err := lock(ctx, conn)
	if err != nil {
		return nil, err
	}
	if !granted {
		c.give(conn)
		return nil, lockport.ErrHeld
	}
	return func(ctx context.Context) error {
		held, err := unlock(ctx, conn)
		if err == nil {
			c.give(conn)
		}
		return unlessHeld(held, err)
	}, nil
}

func openAdvisory(_ context.Context, c measure.Config) (measure.Locker, error) {
	conns := &connections[*pgx.Conn]{open: func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, c.URL) }}
	end := func() error {
		for _, conn := range conns.free {
			_ = conn.Close(context.Background()) // the server may have ended it
		}
		return nil
	}
	return measure.Locker{Close: end, Acquire: func(ctx context.Context, name string, wait bool) (measure.Release, error) {
		h := fnv.New64a()
		_, _ = h.Write([]byte(name))
		ask := func(query string) func(context.Context, *pgx.Conn) (bool, error) {
			return func(ctx context.Context, conn *pgx.Conn) (yes bool, err error) {
				err = conn.QueryRow(ctx, query, int64(h.Sum64())).Scan(&yes)
				return yes, err
			}
		}
		query := either(wait, "SELECT true FROM pg_advisory_lock($1)", "SELECT pg_try_advisory_lock($1)")
		return conns.acquire(ctx, ask(query), ask("SELECT pg_advisory_unlock($1)"))
	}}, nil
}

// openRows has a row for each name, through database/sql without prepared statements, as the table backend does.
func openRows(ctx context.Context, c measure.Config) (l measure.Locker, err error) {
	db, err := sql.Open("pgx", c.URL+"?default_query_exec_mode=exec&sslmode=disable")
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
	// Parameters are put into the text: a statement that is prepared for each call would be two requests.
	db, err := sql.Open("mysql", u.User.String()+"@tcp("+u.Host+")"+u.Path+"?interpolateParams=true")
	if err != nil {
		return l, err
	}
	conns := &connections[*sql.Conn]{open: db.Conn}
	return measure.Locker{Close: db.Close, Acquire: func(ctx context.Context, name string, wait bool) (measure.Release, error) {
		ask := func(query string, args ...any) func(context.Context, *sql.Conn) (bool, error) {
			return func(ctx context.Context, conn *sql.Conn) (bool, error) {
				var yes sql.NullInt64
				err := conn.QueryRowContext(ctx, query, args...).Scan(&yes)
				return yes.Int64 == 1, err
			}
		}
		seconds := either(wait, 3600, 0) // as good as for ever
		return conns.acquire(ctx, ask("SELECT GET_LOCK(?, ?)", name, seconds), ask("SELECT RELEASE_LOCK(?)", name))
	}}, nil
}
