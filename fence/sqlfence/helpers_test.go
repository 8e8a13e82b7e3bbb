package sqlfence_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/fence/sqlfence"
	"github.com/lockport/lockport/internal/lab/fencetest"
	"github.com/lockport/lockport/internal/lab/peer"
)

// door is one way to reach a database.
type door struct {
	dialect sqlfence.Dialect
	db      *sql.DB
	pool    *pgxpool.Pool // nil through database/sql
}

// openDoor goes to the database at target: through pgx, or through database/sql to "postgres" or "mysql".
func openDoor(kind, target string) (door, error) {
	if kind == "pgx" {
		pool, err := pgxpool.New(context.Background(), target)
		if err != nil {
			return door{}, err
		}
		return door{sqlfence.Postgres, stdlib.OpenDBFromPool(pool), pool}, nil
	}
	dialect, driver := sqlfence.Postgres, "pgx"
	if kind == "mysql" {
		dialect, driver = sqlfence.MySQL, "mysql"
	}
	db, err := sql.Open(driver, target)
	if err == nil {
		db.SetMaxOpenConns(8)
		db.SetMaxIdleConns(8)
	}
	return door{dialect, db, nil}, err
}

// via is openDoor, until the test ends.
func via(t *testing.T, kind, target string) door {
	d := peer.Must(openDoor(kind, target))(t)
	t.Cleanup(d.close)
	return d
}

func (d door) close() {
	_ = d.db.Close()
	if d.pool != nil {
		d.pool.Close()
	}
}

func (d door) exec(ctx context.Context, statement string) error {
	return peer.ErrOf(d.db.ExecContext(ctx, statement))
}

// number is the result of a query outside transactions.
func (d door) number(t testing.TB, query string) (n int64) {
	require.NoError(t, d.db.QueryRowContext(t.Context(), query).Scan(&n))
	return n
}

func (d door) register(ctx context.Context, f *sqlfence.Fence, name string, token lockport.Token) error {
	if d.pool != nil {
		return f.RegisterPgx(ctx, d.pool, name, token)
	}
	return f.Register(ctx, d.db, name, token)
}

func (d door) start(ctx context.Context, isolation sql.IsolationLevel) (session, error) {
	if d.pool != nil {
		level := strings.TrimPrefix(strings.ToLower(isolation.String()), "default")
		tx, err := d.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.TxIsoLevel(level)})
		if err != nil {
			return session{}, err
		}
		return session{
			guard: func(ctx context.Context, f *sqlfence.Fence, name string, token lockport.Token) error {
				return f.GuardPgx(ctx, tx, name, token)
			},
			exec:   func(ctx context.Context, statement string) error { return peer.ErrOf(tx.Exec(ctx, statement)) },
			number: func(ctx context.Context, query string, n *int64) error { return tx.QueryRow(ctx, query).Scan(n) },
			commit: tx.Commit, undo: tx.Rollback,
		}, nil
	}
	tx, err := d.db.BeginTx(ctx, &sql.TxOptions{Isolation: isolation})
	return session{
		guard: func(ctx context.Context, f *sqlfence.Fence, name string, token lockport.Token) error {
			return f.Guard(ctx, tx, name, token)
		},
		exec:   func(ctx context.Context, statement string) error { return peer.ErrOf(tx.ExecContext(ctx, statement)) },
		number: func(ctx context.Context, query string, n *int64) error { return tx.QueryRowContext(ctx, query).Scan(n) },
		commit: func(context.Context) error { return tx.Commit() },
		undo:   func(context.Context) error { return tx.Rollback() },
	}, err
}

// session is a transaction of either kind.
type session struct {
	guard        func(ctx context.Context, f *sqlfence.Fence, name string, token lockport.Token) error
	exec         func(ctx context.Context, statement string) error
	number       func(ctx context.Context, query string, n *int64) error
	commit, undo func(ctx context.Context) error
}

// begin begins a transaction that ends with t.
func (d door) begin(t testing.TB, isolation sql.IsolationLevel) session {
	tx := peer.Must(d.start(soon(t), isolation))(t)
	t.Cleanup(func() { _ = tx.undo(context.Background()) })
	return tx
}

// table returns a table name that no other test uses.
func table() string { return "table" + strings.ToLower(rand.Text()) }

// fence makes a fence on an existing table.
func (d door) fence(t testing.TB, table string) *sqlfence.Fence {
	f := peer.Must(sqlfence.New(d.dialect, table))(t)
	require.NoError(t, d.exec(t.Context(), f.Schema()))
	return f
}

// soon bounds what must not hang.
func soon(t testing.TB) context.Context { return peer.Within(t, 30*time.Second) }

const createAccount = "CREATE TABLE IF NOT EXISTS account (id VARCHAR(200) PRIMARY KEY, balance BIGINT NOT NULL)"

// account adds the row of name if it is missing.
func (d door) account(ctx context.Context, name string) error {
	ifMissing := map[sqlfence.Dialect]string{sqlfence.Postgres: "ON CONFLICT DO NOTHING", sqlfence.MySQL: "ON DUPLICATE KEY UPDATE id = id"}
	return d.exec(ctx, "INSERT INTO account VALUES ('"+name+"', 0) "+ifMissing[d.dialect])
}

// open opens a store in the table account, with a fence beside it. target is "pgx", "postgres" or "mysql", a space and the database's address.
func open(ctx context.Context, target string) (*fencetest.Store, error) {
	kind, target, _ := strings.Cut(target, " ")
	d, err := openDoor(kind, target)
	if err != nil {
		return nil, err
	}
	f, _ := sqlfence.New(d.dialect, "") // a known dialect
	write := func(ctx context.Context, name string, value int64, guard func(tx session) error) error {
		tx, err := d.start(ctx, sql.LevelDefault)
		if err != nil {
			return err
		}
		defer func() { _ = tx.undo(ctx) }()
		if err = guard(tx); err == nil {
			err = tx.exec(ctx, fmt.Sprintf("UPDATE account SET balance = %d WHERE id = '%s'", value, name))
		}
		if err != nil {
			return err
		}
		return tx.commit(ctx)
	}
	return &fencetest.Store{
		Register: func(ctx context.Context, name string, token lockport.Token, _ *lockport.Lock) (fencetest.Write, error) {
			err := d.register(ctx, f, name, token)
			if err == nil {
				err = d.account(ctx, name)
			}
			return func(ctx context.Context, value int64) error {
				return write(ctx, name, value, func(tx session) error { return tx.guard(ctx, f, name, token) })
			}, err
		},
		Bare: func(ctx context.Context, name string, value int64) error {
			return write(ctx, name, value, func(session) error { return nil })
		},
		Get: func(ctx context.Context, name string) (value int64, err error) {
			if err = d.account(ctx, name); err == nil {
				err = d.db.QueryRowContext(ctx, "SELECT balance FROM account WHERE id = '"+name+"'").Scan(&value)
			}
			return value, err
		},
		Close: d.close,
	}, errors.Join(d.exec(ctx, createAccount), d.exec(ctx, f.Schema()))
}
