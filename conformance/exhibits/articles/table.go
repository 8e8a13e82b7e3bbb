package articles

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockport/lockport/conformance/library"
	"github.com/lockport/lockport/driver"
)

// TableSQL creates the table of the locks that are rows in Postgres.
const TableSQL = "CREATE TABLE IF NOT EXISTS article_locks (name text PRIMARY KEY, holder text NOT NULL, expires timestamptz NOT NULL, version bigint NOT NULL DEFAULT 0)"

// The statements by which a sound lock takes a name and frees it.
const (
	takeRow = `INSERT INTO article_locks AS l VALUES (@name, @holder, clock_timestamp() + @ttl) ON CONFLICT (name) DO UPDATE
		SET holder = @holder, expires = excluded.expires, version = l.version + 1 WHERE l.holder = @holder OR l.expires <= clock_timestamp()`
	freeRow = "UPDATE article_locks SET holder = '', expires = clock_timestamp()" + ownRow
	ownRow  = " WHERE name = @name AND holder = @holder AND expires > clock_timestamp()"
)

// onTable opens a lock in a table with these statements, each in its own transaction.
func onTable(take, free string) opener {
	return func(target string) (driver.Backend, error) {
		pool, err := pgxpool.New(context.Background(), target)
		if err != nil {
			return nil, err
		}
		ask := func(statement string) step {
			return func(ctx context.Context, c claim) (bool, error) {
				tag, err := pool.Exec(ctx, statement, pgx.NamedArgs{"name": c.key, "holder": c.value, "ttl": c.ttl})
				return tag.RowsAffected() > 0, err
			}
		}
		l := &lock{
			caps: driver.Capabilities{Backend: "postgres", Ends: driver.EndsTTL, MinTTL: time.Millisecond, TTLGrain: time.Millisecond},
			key:  func(name string) string { return name }, value: func(owner string) string { return owner },
			valid: func(sent time.Time, ttl time.Duration) (time.Time, bool) {
				return sent.Add(ttl), time.Since(sent) < ttl
			},
			take: ask(take), renew: ask("UPDATE article_locks SET expires = clock_timestamp() + @ttl" + ownRow), release: ask(free), undo: ask(free),
			close: func() error { pool.Close(); return nil },
		}
		return l.driver(), nil
	}
}

// inTransactions opens a lock that holds a name by a row lock of a transaction, on a connection for each claim.
func inTransactions(target string) (driver.Backend, error) {
	caps := driver.Capabilities{Backend: "postgres", Ends: driver.EndsSession, FixedTTL: 2 * time.Second}
	take := func(ctx context.Context, c library.Claim) (*library.Hold, error) {
		conn, err := pgx.Connect(ctx, target)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
		}
		_, err = conn.Exec(ctx, "INSERT INTO article_locks VALUES ($1, '', now()) ON CONFLICT DO NOTHING", c.Name)
		if err == nil {
			_, err = conn.Exec(ctx, "BEGIN")
		}
		var row pgconn.CommandTag
		if err == nil {
			row, err = conn.Exec(ctx, "SELECT FROM article_locks WHERE name = $1 FOR UPDATE SKIP LOCKED", c.Name)
		}
		if err == nil && row.RowsAffected() == 0 {
			return nil, errors.Join(driver.ErrHeld, conn.Close(ctx))
		}
		return &library.Hold{Release: conn.Close, Abort: func() { _ = conn.Close(context.Background()) }}, err
	}
	return library.Driver(caps, library.Client{Take: take, Close: func() error { return nil }}), nil
}
