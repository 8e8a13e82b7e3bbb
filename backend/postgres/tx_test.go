package postgres

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx" of database/sql
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lab/servers"
)

func begin(t testing.TB, conn *pgx.Conn) pgx.Tx {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	return tx
}

func TestTransactionLocks(t *testing.T) {
	t.Parallel()
	p := servers.NeedPostgres(t, servers.PostgresOptions{})
	b, err := NewBackendURL(p.URL())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	c := clientAt(t, p.URL())
	one, two := admin(t, p.URL()), admin(t, p.URL())

	// The same locks as a client's, and tokens of one order.
	l := acquire(t, c, "x")
	tx := begin(t, one)
	_, err = b.TryLockTx(t.Context(), tx, "x")
	require.ErrorIs(t, err, lockport.ErrHeld)
	require.ErrorContains(t, err, `lockport: try in transaction "x" (postgres): lock is held by somebody else`)
	require.NoError(t, l.Release(t.Context()))
	first, err := b.TryLockTx(t.Context(), tx, "x")
	require.NoError(t, err, "ErrHeld leaves the transaction as it was")
	require.Greater(t, first, tokenOf(t, l))
	_, err = c.TryAcquire(t.Context(), "x")
	require.ErrorIs(t, err, lockport.ErrHeld)
	again, err := b.LockTx(t.Context(), tx, "x")
	require.NoError(t, err, "it has it already")
	require.Greater(t, again, first)

	// Who waits gets it when the transaction ends.
	type locked struct {
		token lockport.Token
		err   error
	}
	got := make(chan locked, 1)
	other := begin(t, two)
	go func() {
		token, err := b.LockTx(t.Context(), other, "x")
		got <- locked{token, err}
	}()
	require.Eventually(t, func() bool {
		return query[bool](t, admin(t, p.AdminURL()), `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)`)
	}, soon, 10*time.Millisecond)
	require.NoError(t, tx.Commit(t.Context()))
	second := receive(t, got)
	require.NoError(t, second.err)
	require.Greater(t, second.token, again)
	require.NoError(t, other.Rollback(t.Context()))
	l = acquire(t, c, "x")
	require.Greater(t, tokenOf(t, l), second.token)

	// What bounds a wait: lock_timeout, behind a savepoint.
	tx = begin(t, one)
	save, err := tx.Begin(t.Context())
	require.NoError(t, err)
	_, err = save.Exec(t.Context(), `SET LOCAL lock_timeout = '50ms'`)
	require.NoError(t, err)
	_, err = b.LockTx(t.Context(), save, "x")
	require.ErrorIs(t, err, lockport.ErrHeld)
	require.NoError(t, save.Rollback(t.Context()))
	_, err = b.TryLockTx(t.Context(), tx, "y")
	require.NoError(t, err)

	// A savepoint that is rolled back gives back what was taken behind it, and nothing else.
	save, err = tx.Begin(t.Context())
	require.NoError(t, err)
	_, err = b.TryLockTx(t.Context(), save, "z")
	require.NoError(t, err)
	require.NoError(t, save.Rollback(t.Context()))
	require.NoError(t, acquire(t, c, "z").Release(t.Context()))
	_, err = c.TryAcquire(t.Context(), "y")
	require.ErrorIs(t, err, lockport.ErrHeld)
	require.NoError(t, tx.Rollback(t.Context()))
	require.NoError(t, acquire(t, c, "y").Release(t.Context()))

	// A context that ends takes the transaction with it.
	tx = begin(t, one)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = b.TryLockTx(ctx, tx, "y")
	require.NoError(t, err)
	_, err = b.LockTx(ctx, tx, "x")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, lockport.ErrUnavailable)
	require.True(t, one.IsClosed())
	require.NoError(t, acquire(t, c, "y").Release(t.Context()))
	require.NoError(t, l.Release(t.Context()))

	tx = begin(t, two)
	_, err = b.TryLockTx(t.Context(), tx, "")
	require.ErrorIs(t, err, lockport.ErrInvalidName)
}

func TestTransactionLocksOfDatabaseSQL(t *testing.T) {
	t.Parallel()
	p := servers.NeedPostgres(t, servers.PostgresOptions{Durable: true})
	b, err := NewBackendURL(p.URL())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	db, err := sql.Open("pgx", p.URL())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	begin := func() *sql.Tx {
		var tx *sql.Tx
		require.Eventually(t, func() bool { tx, err = db.BeginTx(t.Context(), nil); return err == nil }, soon, 10*time.Millisecond)
		return tx
	}
	tx, other := begin(), begin()
	token, err := b.LockSQLTx(t.Context(), tx, "x")
	require.NoError(t, err)
	_, err = b.TryLockSQLTx(t.Context(), other, "x")
	require.ErrorIs(t, err, lockport.ErrHeld)
	require.NoError(t, tx.Rollback())
	next, err := b.TryLockSQLTx(t.Context(), other, "x")
	require.NoError(t, err)
	require.Greater(t, next, token)
	require.NoError(t, other.Commit())

	// A statement that fails, and a transaction that is aborted.
	tx = begin()
	_, err = tx.ExecContext(t.Context(), "SELECT 1/0")
	require.Error(t, err)
	_, err = b.TryLockSQLTx(t.Context(), tx, "x")
	require.ErrorIs(t, err, lockport.ErrUnavailable)
	require.NoError(t, tx.Rollback())
	tx, err = db.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
	require.NoError(t, err)
	_, err = b.TryLockSQLTx(t.Context(), tx, "x")
	require.ErrorIs(t, err, lockport.ErrRefused)
	require.NoError(t, tx.Rollback())

	// After a crash, no session of ours has looked after the sequence before.
	require.NoError(t, p.Kill())
	require.NoError(t, p.Restart(t.Context()))
	tx = begin()
	after, err := b.TryLockSQLTx(t.Context(), tx, "x")
	require.NoError(t, err)
	require.Greater(t, after, next+crashGap)
	require.NoError(t, tx.Rollback())

	_, err = NewBackendURL("postgres://lockport:se-cret@/x")
	require.Error(t, err)
	require.NotContains(t, err.Error(), "se-cret")
}
