package libraries

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockport/lockport/driver"
)

// sqlTTL is stated by the locks that end with their session.
const sqlTTL = 2 * time.Second

const (
	pgTry  = "SELECT pg_try_advisory_lock($1)"
	pgFree = "SELECT pg_advisory_unlock($1)"
)

// pgLock is an advisory lock of Postgres, on one session that is this lock's alone.
type pgLock struct {
	lock
	config *pgx.ConnConfig
	mine   table

	mu   sync.Mutex // one query at a time
	conn *pgx.Conn
}

func newPostgres(target string) (*pgLock, error) {
	config, err := pgx.ParseConfig(target)
	if err != nil {
		return nil, err
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol // PgBouncer knows it too
	l := &pgLock{config: config}
	l.caps = driver.Capabilities{Backend: "postgres", Ends: driver.EndsSession, FixedTTL: sqlTTL}
	l.take, l.renew, l.release = l.try, never, l.free
	l.abandon = func(ctx context.Context, req driver.Request) error {
		if !l.mine.has(req.Name, req.Owner) {
			return nil
		}
		return l.free(ctx, &claim{req: req})
	}
	l.close = func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.conn == nil {
			return nil
		}
		return l.conn.Close(context.Background())
	}
	return l, nil
}

// onPostgres opens the lock with what spoil changes.
func onPostgres(spoil func(*pgLock) error) opener {
	return func(_ context.Context, target string) (driver.Backend, error) {
		l, err := newPostgres(target)
		if err == nil {
			err = spoil(l)
		}
		return l, err
	}
}

func pgKey(name string) int64 {
	sum := sha256.Sum256([]byte(name))
	return int64(binary.BigEndian.Uint64(sum[:]))
}

// ask asks the session, which is begun when it is first needed.
func (l *pgLock) ask(ctx context.Context, query, name string) (yes bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == nil {
		if l.conn, err = pgx.ConnectConfig(ctx, l.config); err != nil {
			return false, err
		}
	}
	err = l.conn.QueryRow(ctx, query, pgKey(name)).Scan(&yes)
	return yes, err
}

func (l *pgLock) try(ctx context.Context, req driver.Request) (*claim, error) {
	if !l.mine.enter(req.Name, req.Owner) {
		return nil, driver.ErrHeld
	}
	granted, err := l.ask(ctx, pgTry, req.Name)
	if err := held(granted, err); err != nil {
		l.mine.leave(req.Name, req.Owner)
		return nil, err
	}
	return new(claim), nil
}

func (l *pgLock) free(ctx context.Context, c *claim) error {
	defer l.mine.leave(c.req.Name, c.req.Owner)
	had, err := l.ask(ctx, pgFree, c.req.Name)
	switch {
	case err != nil:
		return unknown(err)
	case !had:
		return driver.ErrLost
	}
	return nil
}

// pooled gives l a pool, from which each query has whatever session is free.
func (l *pgLock) pooled() (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(l.config.ConnString())
	if err != nil {
		return nil, err
	}
	config.ConnConfig.DefaultQueryExecMode = l.config.DefaultQueryExecMode
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, err
	}
	l.close = func() error { pool.Close(); return nil }
	return pool, nil
}

// postgresBugs are advisory locks of Postgres.
var postgresBugs = soundly(onPostgres(func(*pgLock) error { return nil }), []Exhibit{
	{
		Name: "unlocks-on-another-connection", Library: "frontier", Reference: "https://github.com/raystack/frontier/pull/1918", Server: Postgres,
		Is:       "the unlock goes to whatever connection of the pool is free, and that it released nothing is not looked at",
		CaughtBy: []string{"contract/release"}, Sees: "nobody has the name, yet a claim was not granted",
		broken: onPostgres(func(l *pgLock) error {
			pool, err := l.pooled()
			if err != nil {
				return err
			}
			l.take = func(ctx context.Context, req driver.Request) (*claim, error) {
				if !l.mine.enter(req.Name, req.Owner) {
					return nil, driver.ErrHeld
				}
				var granted bool
				err := pool.QueryRow(ctx, pgTry, pgKey(req.Name)).Scan(&granted)
				if err := held(granted, err); err != nil {
					l.mine.leave(req.Name, req.Owner)
					return nil, err
				}
				return new(claim), nil
			}
			l.release = func(ctx context.Context, c *claim) error {
				defer l.mine.leave(c.req.Name, c.req.Owner)
				// Another part of the program uses the connection that was used last.
				busy, err := pool.Acquire(ctx)
				if err != nil {
					return unknown(err)
				}
				defer busy.Release()
				_, err = pool.Exec(ctx, pgFree, pgKey(c.req.Name))
				return unknown(err)
			}
			l.abandon = func(ctx context.Context, req driver.Request) error { return l.release(ctx, &claim{req: req}) }
			return nil
		}),
	},
	{
		Name: "one-session-locks-twice", Library: "pals", Reference: "https://github.com/level12/pals/issues/14", Server: Postgres,
		Is:       "two locks of a name use the same session of a pool, which lets itself in again",
		CaughtBy: []string{"exclusion/two-claims"}, Sees: "another claim was granted",
		broken: onPostgres(func(l *pgLock) error {
			pool, err := l.pooled()
			if err != nil {
				return err
			}
			l.take = func(ctx context.Context, req driver.Request) (*claim, error) {
				var granted bool
				err := pool.QueryRow(ctx, pgTry, pgKey(req.Name)).Scan(&granted)
				return new(claim), held(granted, err)
			}
			l.release = func(ctx context.Context, c *claim) error {
				_, err := pool.Exec(ctx, pgFree, pgKey(c.req.Name))
				return unknown(err)
			}
			l.abandon = func(ctx context.Context, req driver.Request) error { return l.release(ctx, &claim{req: req}) }
			return nil
		}),
	},
	{
		Name: "through-pgbouncer", Library: "hindsight", Reference: "https://github.com/vectorize-io/hindsight/pull/726", Server: PgBouncer,
		Is:       "the session of the lock is lent out by PgBouncer in transaction mode, to everybody, between two queries",
		CaughtBy: []string{"exclusion/two-backends"}, Sees: "another claim was granted",
		broken: onPostgres(func(*pgLock) error { return nil }),
	},
})
