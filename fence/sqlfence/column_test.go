package sqlfence_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/fence"
	"github.com/lockport/lockport/fence/sqlfence"
)

// The guarded statements for a table with a token column of its own, as docs/fencing.md shows them.
const (
	postgresRegister = `UPDATE account SET fence = $2 WHERE id = $1 AND fence <= $2 RETURNING balance;`
	postgresUpdate   = `UPDATE account SET balance = $3, fence = $2 WHERE id = $1 AND fence <= $2;`
	postgresInsert   = `INSERT INTO account (id, fence, balance) VALUES ($1, $2, $3)
ON CONFLICT (id) DO UPDATE SET fence = EXCLUDED.fence, balance = EXCLUDED.balance
WHERE account.fence <= EXCLUDED.fence;`

	mySQLLook     = `SELECT balance, fence FROM account WHERE id = ? FOR UPDATE;`
	mySQLRegister = `UPDATE account SET fence = ? WHERE id = ?;`
	mySQLUpdate   = `UPDATE account SET balance = ?, fence = ? WHERE id = ? AND fence <= ?;`
	mySQLInsert   = `INSERT INTO account (id, fence, balance) VALUES (?, ?, ?) ON DUPLICATE KEY UPDATE
  balance = IF(fence <= VALUES(fence), VALUES(balance), balance),
  fence = GREATEST(fence, VALUES(fence));`
)

func TestDocumentedStatements(t *testing.T) {
	page, err := os.ReadFile("../../docs/fencing.md")
	require.NoError(t, err)
	for _, s := range []string{postgresRegister, postgresUpdate, postgresInsert, mySQLLook, mySQLRegister, mySQLUpdate, mySQLInsert} {
		require.Contains(t, string(page), s)
	}
	for _, d := range []sqlfence.Dialect{sqlfence.Postgres, sqlfence.MySQL} {
		f, err := sqlfence.New(d, "")
		require.NoError(t, err)
		require.Contains(t, string(page), f.Schema()+";")
		require.Contains(t, strings.ReplaceAll(string(page), "\n", " "), sqlfence.GuardStatement(f)+";")
	}
}

// column uses the statements.
type column struct {
	db      *sql.DB
	dialect sqlfence.Dialect
}

// register registers, and then reads.
func (c column) register(ctx context.Context, id string, token lockport.Token) (balance int64, err error) {
	if c.dialect == sqlfence.Postgres {
		err = c.db.QueryRowContext(ctx, postgresRegister, id, int64(token)).Scan(&balance)
		if errors.Is(err, sql.ErrNoRows) {
			err = fence.ErrStale
		}
		return balance, err
	}
	return balance, c.do(ctx, func(tx *sql.Tx) (err error) {
		if balance, err = c.look(ctx, tx, id, token); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, mySQLRegister, int64(token), id)
		return err
	})
}

// look reads and locks MySQL's row, and compares the tokens.
func (c column) look(ctx context.Context, tx *sql.Tx, id string, token lockport.Token) (balance int64, err error) {
	var seen int64
	if err := tx.QueryRowContext(ctx, mySQLLook, id).Scan(&balance, &seen); err != nil {
		return 0, err
	}
	return balance, fence.Check(id, token, lockport.Token(seen))
}

func (c column) update(ctx context.Context, id string, token lockport.Token, balance int64) error {
	if c.dialect == sqlfence.Postgres {
		return touched(c.db.ExecContext(ctx, postgresUpdate, id, int64(token), balance))
	}
	return touched(c.db.ExecContext(ctx, mySQLUpdate, balance, int64(token), id, int64(token)))
}

func (c column) insert(ctx context.Context, id string, token lockport.Token, balance int64) error {
	if c.dialect == sqlfence.Postgres {
		return touched(c.db.ExecContext(ctx, postgresInsert, id, int64(token), balance))
	}
	return c.do(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, mySQLInsert, id, int64(token), balance); err != nil {
			return err
		}
		_, err := c.look(ctx, tx, id, token)
		return err
	})
}

func (c column) do(ctx context.Context, fn func(tx *sql.Tx) error) error {
	tx, err := c.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// touched: no affected row means that there is a newer token.
func touched(result sql.Result, err error) error {
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); n > 0 || err != nil {
		return err
	}
	return fence.ErrStale
}

func testColumn(t *testing.T, d door) {
	ctx := soon(t)
	require.NoError(t, d.exec(ctx, createAccount[d.dialect]))
	c := column{d.db, d.dialect}
	balance := func(token lockport.Token) int64 {
		t.Helper()
		n, err := c.register(ctx, "a", token)
		require.NoError(t, err)
		return n
	}

	require.NoError(t, c.insert(ctx, "a", 5, 10), "a new row")
	require.NoError(t, c.insert(ctx, "a", 5, 11))
	require.NoError(t, c.insert(ctx, "a", 5, 11), "again")
	require.NoError(t, c.update(ctx, "a", 5, 12))
	require.NoError(t, c.update(ctx, "a", 5, 12), "a repetition changes nothing, which is not a refusal")
	require.EqualValues(t, 12, balance(5))
	require.EqualValues(t, 12, balance(5), "again")
	require.EqualValues(t, 12, balance(7), "a new holder reads")
	require.ErrorIs(t, c.update(ctx, "a", 6, 13), fence.ErrStale)
	require.ErrorIs(t, c.insert(ctx, "a", 6, 13), fence.ErrStale)
	_, err := c.register(ctx, "a", 6)
	require.ErrorIs(t, err, fence.ErrStale)
	require.EqualValues(t, 12, balance(7))
	require.NoError(t, c.insert(ctx, "a", 9, 14), "a new holder that writes without reading")
	require.ErrorIs(t, c.update(ctx, "a", 8, 15), fence.ErrStale)
	require.NoError(t, c.update(ctx, "a", 10, 16))
	require.ErrorIs(t, c.insert(ctx, "a", 9, 17), fence.ErrStale)
	require.EqualValues(t, 16, balance(10))
}
