package sqlfence_test

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/fence/sqlfence"
	"github.com/lockport/lockport/internal/lab/fencetest"
)

// way is how a store of numbers is guarded.
type way string

const (
	guarded   way = "guarded"   // by a fence
	columned  way = "columned"  // by a token in a column of its own
	unguarded way = "unguarded" // not at all
)

// sqlStore keeps the numbers in the table account, through database/sql.
type sqlStore struct {
	db      *sql.DB
	dialect sqlfence.Dialect
	fence   *sqlfence.Fence
	way     way
}

func openSQL(d sqlfence.Dialect, w way) func(context.Context, string) (fencetest.Store, error) {
	return func(ctx context.Context, target string) (fencetest.Store, error) {
		db, err := openDB(driverOf[d], target)
		if err != nil {
			return nil, err
		}
		s := &sqlStore{db: db, dialect: d, way: w}
		if s.fence, err = sqlfence.New(d, ""); err != nil {
			return nil, err
		}
		return s, prepare(func(statement string) error {
			_, err := db.ExecContext(ctx, statement)
			return err
		}, d, s.fence)
	}
}

var driverOf = map[sqlfence.Dialect]string{sqlfence.Postgres: "pgx", sqlfence.MySQL: "mysql"}

// prepare makes the tables, with a row for each name that a run can have.
func prepare(exec func(statement string) error, d sqlfence.Dialect, f *sqlfence.Fence) error {
	for _, statement := range []string{createAccount[d], f.Schema()} {
		if err := exec(statement); err != nil {
			return err
		}
	}
	return nil
}

func (s *sqlStore) Begin(ctx context.Context, l *lockport.Lock) (int64, func(context.Context, int64) error, error) {
	token, _ := l.Token()
	id := l.Name()
	if _, err := s.db.ExecContext(ctx, openAccount[s.dialect], id); err != nil {
		return 0, nil, err
	}
	if s.way == columned {
		c := column{s.db, s.dialect}
		value, err := c.register(ctx, id, token)
		return value, func(ctx context.Context, value int64) error { return c.update(ctx, id, token, value) }, err
	}
	var value int64
	err := s.do(ctx, id, token, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, readAccount[s.dialect], id).Scan(&value)
	})
	return value, func(ctx context.Context, value int64) error {
		return s.do(ctx, id, token, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, writeAccount[s.dialect], value, id)
			return err
		})
	}, err
}

// do does fn in a transaction, guarded if that is the way.
func (s *sqlStore) do(ctx context.Context, id string, token lockport.Token, fn func(tx *sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if s.way == guarded {
		if err := s.fence.Guard(ctx, tx, id, token); err != nil {
			return err
		}
	}
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func (s *sqlStore) Value(ctx context.Context, name string) (value int64, err error) {
	return value, s.db.QueryRowContext(ctx, readAccount[s.dialect], name).Scan(&value)
}

func (s *sqlStore) Close() error { return s.db.Close() }

// pgxStore is the guarded one through pgx.
type pgxStore struct {
	pool  *pgxpool.Pool
	fence *sqlfence.Fence
}

func openPgx(ctx context.Context, target string) (fencetest.Store, error) {
	pool, err := openPool(ctx, target)
	if err != nil {
		return nil, err
	}
	f, err := sqlfence.New(sqlfence.Postgres, "")
	if err != nil {
		return nil, err
	}
	return &pgxStore{pool, f}, prepare(func(statement string) error {
		_, err := pool.Exec(ctx, statement)
		return err
	}, sqlfence.Postgres, f)
}

func (s *pgxStore) Begin(ctx context.Context, l *lockport.Lock) (value int64, write func(context.Context, int64) error, err error) {
	token, _ := l.Token()
	if _, err := s.pool.Exec(ctx, openAccount[sqlfence.Postgres], l.Name()); err != nil {
		return 0, nil, err
	}
	do := func(ctx context.Context, fn func(tx pgx.Tx) error) error {
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			if err := s.fence.GuardPgx(ctx, tx, l.Name(), token); err != nil {
				return err
			}
			return fn(tx)
		})
	}
	err = do(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, readAccount[sqlfence.Postgres], l.Name()).Scan(&value)
	})
	return value, func(ctx context.Context, value int64) error {
		return do(ctx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, writeAccount[sqlfence.Postgres], value, l.Name())
			return err
		})
	}, err
}

func (s *pgxStore) Value(ctx context.Context, name string) (value int64, err error) {
	return value, s.pool.QueryRow(ctx, readAccount[sqlfence.Postgres], name).Scan(&value)
}

func (s *pgxStore) Close() error {
	s.pool.Close()
	return nil
}

// The tables and statements of the numbers; openAccount makes a row that is not there.
var (
	createAccount = map[sqlfence.Dialect]string{
		sqlfence.Postgres: "CREATE TABLE IF NOT EXISTS account (id text PRIMARY KEY, balance bigint NOT NULL, fence bigint NOT NULL DEFAULT 0)",
		sqlfence.MySQL:    "CREATE TABLE IF NOT EXISTS account (id VARCHAR(200) PRIMARY KEY, balance BIGINT NOT NULL, fence BIGINT NOT NULL DEFAULT 0) ENGINE=InnoDB",
	}
	openAccount = map[sqlfence.Dialect]string{
		sqlfence.Postgres: "INSERT INTO account (id, balance) VALUES ($1, 0) ON CONFLICT DO NOTHING",
		sqlfence.MySQL:    "INSERT IGNORE INTO account (id, balance) VALUES (?, 0)",
	}
	readAccount = map[sqlfence.Dialect]string{
		sqlfence.Postgres: "SELECT balance FROM account WHERE id = $1",
		sqlfence.MySQL:    "SELECT balance FROM account WHERE id = ?",
	}
	writeAccount = map[sqlfence.Dialect]string{
		sqlfence.Postgres: "UPDATE account SET balance = $1 WHERE id = $2",
		sqlfence.MySQL:    "UPDATE account SET balance = ? WHERE id = ?",
	}
)
