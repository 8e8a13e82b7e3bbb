package sqlfence_test

import (
	"context"
	"errors"

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

var driverOf = map[sqlfence.Dialect]string{sqlfence.Postgres: "pgx", sqlfence.MySQL: "mysql"}

// store keeps the numbers in the table account.
type store struct {
	door
	fence *sqlfence.Fence
	way   way
}

func openSQL(dialect sqlfence.Dialect, w way) func(context.Context, string) (fencetest.Store, error) {
	return func(ctx context.Context, target string) (fencetest.Store, error) {
		d, err := throughSQL(dialect, target)
		return newStore(ctx, d, w, err)
	}
}

func openPgx(ctx context.Context, target string) (fencetest.Store, error) {
	d, err := throughPgx(ctx, target)
	return newStore(ctx, d, guarded, err)
}

// newStore makes the tables.
func newStore(ctx context.Context, d door, w way, err error) (fencetest.Store, error) {
	if err != nil {
		return nil, err
	}
	f, err := sqlfence.New(d.dialect, "")
	if err != nil {
		return nil, err
	}
	return store{d, f, w}, errors.Join(d.exec(ctx, createAccount[d.dialect]), d.exec(ctx, f.Schema()))
}

func (s store) Begin(ctx context.Context, l *lockport.Lock) (value int64, write func(context.Context, int64) error, err error) {
	token, _ := l.Token()
	id := l.Name()
	if err := s.exec(ctx, openAccount[s.dialect], id); err != nil {
		return 0, nil, err
	}
	if s.way == columned {
		c := column{s.db, s.dialect}
		value, err := c.register(ctx, id, token)
		return value, func(ctx context.Context, value int64) error { return c.update(ctx, id, token, value) }, err
	}
	do := func(ctx context.Context, fn func(tx session) error) error {
		return s.do(ctx, func(tx session) error {
			if s.way == guarded {
				if err := tx.guard(ctx, s.fence, id, token); err != nil {
					return err
				}
			}
			return fn(tx)
		})
	}
	err = do(ctx, func(tx session) (err error) {
		value, err = tx.number(ctx, readAccount[s.dialect], id)
		return err
	})
	return value, func(ctx context.Context, value int64) error {
		return do(ctx, func(tx session) error { return tx.exec(ctx, writeAccount[s.dialect], value, id) })
	}, err
}

// do does fn in a transaction.
func (s store) do(ctx context.Context, fn func(tx session) error) error {
	tx, err := s.start(ctx, "")
	if err != nil {
		return err
	}
	defer func() { _ = tx.undo(ctx) }()
	if err := fn(tx); err != nil {
		return err
	}
	return tx.commit(ctx)
}

func (s store) Value(ctx context.Context, name string) (value int64, err error) {
	err = s.do(ctx, func(tx session) (err error) {
		value, err = tx.number(ctx, readAccount[s.dialect], name)
		return err
	})
	return value, err
}

func (s store) Close() error { return s.close() }

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
