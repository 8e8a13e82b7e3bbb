package articles

import (
	"context"
	"database/sql"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockport/lockport/driver"
)

// query runs a statement about a name and returns whether the server said yes.
type query func(ctx context.Context, name string) (bool, error)

// inSQL returns a session that locks by take and unlocks by free.
func inSQL(take, free query, end func(context.Context) error) session {
	return session{func(ctx context.Context, name string) (func(context.Context) error, error) {
		unlock := func(ctx context.Context) error { _, err := free(ctx, name); return err }
		taken, err := take(ctx, name)
		if err == nil && !taken {
			err = driver.ErrHeld
		}
		return unlock, err
	}, end}
}

// rower is a connection or a pool of pgx.
type rower interface {
	QueryRow(ctx context.Context, statement string, args ...any) pgx.Row
}

// advisory calls a function of Postgres' advisory locks.
func advisory(conn rower, function string) query {
	return func(ctx context.Context, name string) (yes bool, err error) {
		err = conn.QueryRow(ctx, "SELECT "+function+"(hashtextextended($1, 0))", name).Scan(&yes)
		return yes, err
	}
}

func postgresCaps() driver.Capabilities {
	return driver.Capabilities{Backend: "postgres", Ends: driver.EndsSession, FixedTTL: sessionTTL}
}

// onPostgres opens a lock on Postgres' advisory locks.
func onPostgres(target string) (driver.Backend, error) {
	return inSessions(postgresCaps(), false, func(ctx context.Context) (session, error) {
		conn, err := pgx.Connect(ctx, target)
		if err != nil {
			return session{}, err
		}
		return inSQL(advisory(conn, "pg_try_advisory_lock"), advisory(conn, "pg_advisory_unlock"), conn.Close), nil
	}, func() error { return nil }), nil
}

// onPool opens advisory locks whose queries use any free connection of a pool.
func onPool(target string) (driver.Backend, error) {
	pool, err := pgxpool.New(context.Background(), target)
	if err != nil {
		return nil, err
	}
	free := func(ctx context.Context, name string) (bool, error) {
		busy, err := pool.Acquire(ctx) // another part of the program occupies the connection used last
		if err != nil {
			return false, err
		}
		defer busy.Release()
		return advisory(pool, "pg_advisory_unlock")(ctx, name)
	}
	s := inSQL(advisory(pool, "pg_try_advisory_lock"), free, func(context.Context) error { return nil })
	return inSessions(postgresCaps(), true, func(context.Context) (session, error) { return s, nil }, func() error { pool.Close(); return nil }), nil
}

// onMySQL opens a lock on GET_LOCK of MariaDB or MySQL.
func onMySQL(shared bool) opener {
	return func(target string) (driver.Backend, error) {
		config, err := mysql.ParseDSN(target)
		if err != nil {
			return nil, err
		}
		connector, err := mysql.NewConnector(config)
		if err != nil {
			return nil, err
		}
		db := sql.OpenDB(connector)
		db.SetMaxIdleConns(0) // a connection that is returned to the pool closes
		caps := driver.Capabilities{Backend: "mysql", Ends: driver.EndsSession, FixedTTL: sessionTTL}
		return inSessions(caps, shared, func(ctx context.Context) (session, error) {
			conn, err := db.Conn(context.WithoutCancel(ctx))
			if err != nil {
				return session{}, err
			}
			ask := func(statement string) query {
				return func(ctx context.Context, name string) (bool, error) {
					var yes sql.NullInt64
					err := conn.QueryRowContext(ctx, statement, name).Scan(&yes)
					return yes.Int64 == 1, err
				}
			}
			end := func(context.Context) error { return unless(conn.Close(), sql.ErrConnDone) }
			return inSQL(ask("SELECT GET_LOCK(?, 0)"), ask("SELECT RELEASE_LOCK(?)"), end), nil
		}, db.Close), nil
	}
}
