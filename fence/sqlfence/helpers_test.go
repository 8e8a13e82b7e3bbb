package sqlfence_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/fence/sqlfence"
)

const connections = 8 // of each pool

// openDB opens a pool of connections of database/sql.
func openDB(driver, target string) (*sql.DB, error) {
	db, err := sql.Open(driver, target)
	if err == nil {
		db.SetMaxOpenConns(connections)
		db.SetMaxIdleConns(connections)
	}
	return db, err
}

func openPool(ctx context.Context, target string) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(target)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = connections
	return pgxpool.NewWithConfig(ctx, cfg)
}

// door is one of the ways to a database.
type door struct {
	dialect  sqlfence.Dialect
	start    func(ctx context.Context, isolation string) (session, error)
	exec     func(ctx context.Context, statement string, args ...any) error
	register func(ctx context.Context, f *sqlfence.Fence, name string, token lockport.Token) error
	close    func() error
	db       *sql.DB // nil through pgx
}

// session is a transaction of either kind.
type session interface {
	guard(ctx context.Context, f *sqlfence.Fence, name string, token lockport.Token) error
	exec(ctx context.Context, statement string, args ...any) error
	number(ctx context.Context, query string, args ...any) (int64, error)
	commit(ctx context.Context) error
	undo(ctx context.Context) error
}

// throughSQL is the way through database/sql.
func throughSQL(dialect sqlfence.Dialect, target string) (door, error) {
	db, err := openDB(driverOf[dialect], target)
	levels := map[string]sql.IsolationLevel{"READ COMMITTED": sql.LevelReadCommitted, "REPEATABLE READ": sql.LevelRepeatableRead,
		"SERIALIZABLE": sql.LevelSerializable}
	return door{
		dialect: dialect,
		db:      db,
		start: func(ctx context.Context, isolation string) (session, error) {
			tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: levels[isolation]})
			return standardTx{tx}, err
		},
		exec: func(ctx context.Context, statement string, args ...any) error {
			_, err := db.ExecContext(ctx, statement, args...)
			return err
		},
		register: func(ctx context.Context, f *sqlfence.Fence, name string, token lockport.Token) error {
			return f.Register(ctx, db, name, token)
		},
		close: func() error { return db.Close() },
	}, err
}

// throughPgx is the way through pgx.
func throughPgx(ctx context.Context, target string) (door, error) {
	pool, err := openPool(ctx, target)
	return door{
		dialect: sqlfence.Postgres,
		start: func(ctx context.Context, isolation string) (session, error) {
			tx, err := pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.TxIsoLevel(strings.ToLower(isolation))})
			return pgxTx{tx}, err
		},
		exec: func(ctx context.Context, statement string, args ...any) error {
			_, err := pool.Exec(ctx, statement, args...)
			return err
		},
		register: func(ctx context.Context, f *sqlfence.Fence, name string, token lockport.Token) error {
			return f.RegisterPgx(ctx, pool, name, token)
		},
		close: func() error { pool.Close(); return nil },
	}, err
}

func viaSQL(t *testing.T, dialect sqlfence.Dialect, target string) door {
	d, err := throughSQL(dialect, target)
	return d.until(t, err)
}

func viaPgx(t *testing.T, target string) door {
	d, err := throughPgx(t.Context(), target)
	return d.until(t, err)
}

// until closes d with t.
func (d door) until(t *testing.T, err error) door {
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.close()) })
	return d
}

// begin begins a transaction, which ends with t.
func (d door) begin(t testing.TB, isolation string) session {
	tx, err := d.start(soon(t), isolation)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.undo(context.Background()) })
	return tx
}

var tables atomic.Int64

// table names a table that no other test has.
func table() string { return fmt.Sprintf("table%d", tables.Add(1)) }

// fence makes a fence whose table is there.
func (d door) fence(t testing.TB, table string) *sqlfence.Fence {
	f, err := sqlfence.New(d.dialect, table)
	require.NoError(t, err)
	require.NoError(t, d.exec(t.Context(), f.Schema()))
	return f
}

// open begins a transaction as the server's defaults have it.
func (d door) open(t testing.TB) session { return d.begin(t, "") }

type standardTx struct{ *sql.Tx }

func (s standardTx) guard(ctx context.Context, f *sqlfence.Fence, name string, token lockport.Token) error {
	return f.Guard(ctx, s.Tx, name, token)
}

func (s standardTx) exec(ctx context.Context, statement string, args ...any) error {
	_, err := s.ExecContext(ctx, statement, args...)
	return err
}

func (s standardTx) number(ctx context.Context, query string, args ...any) (n int64, err error) {
	return n, s.QueryRowContext(ctx, query, args...).Scan(&n)
}

func (s standardTx) commit(context.Context) error { return s.Commit() }
func (s standardTx) undo(context.Context) error   { return s.Rollback() }

type pgxTx struct{ pgx.Tx }

func (p pgxTx) guard(ctx context.Context, f *sqlfence.Fence, name string, token lockport.Token) error {
	return f.GuardPgx(ctx, p.Tx, name, token)
}

func (p pgxTx) exec(ctx context.Context, statement string, args ...any) error {
	_, err := p.Exec(ctx, statement, args...)
	return err
}

func (p pgxTx) number(ctx context.Context, query string, args ...any) (n int64, err error) {
	return n, p.QueryRow(ctx, query, args...).Scan(&n)
}

func (p pgxTx) commit(ctx context.Context) error { return p.Commit(ctx) }
func (p pgxTx) undo(ctx context.Context) error   { return p.Rollback(ctx) }

// soon bounds what must not hang.
func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}
