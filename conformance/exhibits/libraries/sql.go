package libraries

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockport/lockport/driver"
)

// sqlLock locks and unlocks by queries that say whether they did.
func sqlLock(ctx context.Context, take, free func(context.Context) (bool, error)) (func(context.Context) error, uint64, error) {
	unlock := func(ctx context.Context) error {
		_, err := free(ctx)
		return err
	}
	taken, err := take(ctx)
	if err == nil && !taken {
		err = driver.ErrHeld
	}
	return unlock, 0, err
}

const (
	pgTry  = "SELECT pg_try_advisory_lock($1)"
	pgFree = "SELECT pg_advisory_unlock($1)"
)

var pgCapabilities = driver.Capabilities{Backend: "postgres", Ends: driver.EndsSession, FixedTTL: sessionTTL}

func pgKey(name string) int64 {
	sum := sha256.Sum256([]byte(name))
	return int64(binary.BigEndian.Uint64(sum[:]))
}

// onPostgres is advisory locks of Postgres.
func onPostgres(target string) (*sessions, error) {
	return &sessions{caps: pgCapabilities, close: func() error { return nil }, open: func(ctx context.Context) (session, error) {
		conn, err := pgx.Connect(ctx, target)
		if err != nil {
			return session{}, err
		}
		return session{end: conn.Close, lock: func(ctx context.Context, name string) (func(context.Context) error, uint64, error) {
			ask := func(query string) func(context.Context) (bool, error) {
				return func(ctx context.Context) (yes bool, err error) {
					err = conn.QueryRow(ctx, query, pgKey(name)).Scan(&yes)
					return yes, err
				}
			}
			return sqlLock(ctx, ask(pgTry), ask(pgFree))
		}}, nil
	}}, nil
}

// onPool is advisory locks whose queries take whatever connection of a pool is free.
func onPool(target string) (*sessions, error) {
	pool, err := pgxpool.New(context.Background(), target)
	if err != nil {
		return nil, err
	}
	s := session{end: func(context.Context) error { return nil }}
	s.lock = func(ctx context.Context, name string) (func(context.Context) error, uint64, error) {
		return sqlLock(ctx, func(ctx context.Context) (yes bool, err error) {
			err = pool.QueryRow(ctx, pgTry, pgKey(name)).Scan(&yes)
			return yes, err
		}, func(ctx context.Context) (bool, error) {
			// Another part of the program uses the connection that was used last.
			busy, err := pool.Acquire(ctx)
			if err != nil {
				return false, err
			}
			defer busy.Release()
			_, err = pool.Exec(ctx, pgFree, pgKey(name))
			return true, err
		})
	}
	return &sessions{caps: pgCapabilities, shared: true, close: func() error { pool.Close(); return nil },
		open: func(context.Context) (session, error) { return s, nil }}, nil
}

// onMySQL is GET_LOCK of MariaDB or MySQL.
func onMySQL(target string) (*sessions, error) {
	config, err := mysql.ParseDSN(target)
	if err != nil {
		return nil, err
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxIdleConns(0) // a session ends when it is given back
	caps := driver.Capabilities{Backend: "mysql", Ends: driver.EndsSession, FixedTTL: sessionTTL}
	return &sessions{caps: caps, close: db.Close, open: func(ctx context.Context) (session, error) {
		conn, err := db.Conn(context.WithoutCancel(ctx))
		if err != nil {
			return session{}, err
		}
		end := func(context.Context) error { return unless(conn.Close(), sql.ErrConnDone) }
		return session{end: end, lock: func(ctx context.Context, name string) (func(context.Context) error, uint64, error) {
			ask := func(query string) func(context.Context) (bool, error) {
				return func(ctx context.Context) (bool, error) {
					var yes sql.NullInt64
					err := conn.QueryRowContext(ctx, query, name).Scan(&yes)
					return yes.Int64 == 1, err
				}
			}
			return sqlLock(ctx, ask("SELECT GET_LOCK(?, 0)"), ask("SELECT RELEASE_LOCK(?)"))
		}}, nil
	}}, nil
}
