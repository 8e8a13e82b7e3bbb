package sqlfence_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/fence"
	"github.com/lockport/lockport/fence/sqlfence"
	"github.com/lockport/lockport/internal/lab/fencetest"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/pages"
)

// Names, limits, and the rollback of a refused transaction, also if its guard had no time.
func testGuard(t *testing.T, d door) {
	ctx := soon(t)
	f, data := d.fence(t, table()), table()
	require.NoError(t, d.exec(ctx, f.Schema()), "a migration may run again")
	require.NoError(t, d.exec(ctx, "CREATE TABLE "+data+" (n bigint)"))

	// writeIn adds rows to the data and ignores errors of Guard, which it returns. A refused transaction is over, and leaves no row.
	written := int64(0)
	writeIn := func(guardCtx context.Context, name string, token lockport.Token) error {
		tx := d.begin(t, sql.LevelDefault)
		require.NoError(t, tx.exec(ctx, "INSERT INTO "+data+" VALUES (1)"))
		guarded := tx.guard(guardCtx, f, name, token)
		if guardCtx.Err() == nil { // otherwise nothing gives a late rollback time
			_ = tx.exec(ctx, "INSERT INTO "+data+" VALUES (1)")
		}
		committed := tx.commit(ctx)
		if guarded == nil {
			require.NoError(t, committed)
			written += 2
		} else {
			over := errors.Is(committed, sql.ErrTxDone) || errors.Is(committed, pgx.ErrTxClosed)
			require.True(t, over, "a refused transaction is over: %v", committed)
		}
		require.Equal(t, written, d.number(t, "SELECT count(*) FROM "+data), "rows, after %v", guarded)
		return guarded
	}
	write := func(name string, token lockport.Token) error { return writeIn(ctx, name, token) }

	require.NoError(t, write("orders", 5), "the first of its name")
	require.NoError(t, write("orders", 5))
	err := write("orders", 4)
	require.ErrorIs(t, err, fence.ErrStale)
	require.EqualError(t, err, `sqlfence: fencing token 4 of "orders" is stale: a newer holder registered 5; nothing was written, stop`)
	require.NoError(t, write("orders", 6))

	require.ErrorIs(t, write("orders", 0), fence.ErrNoToken)
	for _, name := range []string{"", "a\xff", strings.Repeat("a", 1025)} {
		require.ErrorIs(t, write(name, 7), lockport.ErrInvalidName)
	}
	require.ErrorContains(t, write("never seen", 1<<63), "2^63-1")
	ended, cancel := context.WithCancel(ctx)
	cancel()
	for range 20 {
		require.ErrorIs(t, writeIn(ended, "orders", 7), context.Canceled)
	}

	// Names that a careless column would equate.
	long := strings.Repeat("ü", 511) + "a"
	names := []string{"a", "A", "a ", " a", "ä", "a\x00", "a\x00b", "\u00e1", "a\u0301", "ß", "ss", "i", "ı", "%", "_", `\`, "'", "\"", "\U0001F512", long + "a", long + "b"}
	for i, name := range names {
		require.NoError(t, d.register(ctx, f, name, lockport.Token(100-i)), "%q", name)
	}
	for i, name := range names {
		require.ErrorIs(t, d.register(ctx, f, name, lockport.Token(100-i-1)), fence.ErrStale, "%q", name)
	}
}

// A new holder waits for an older one's guarded transaction, then reads its writes or is told to retry: at every isolation level.
func testWaits(t *testing.T, d door) {
	f, data := d.fence(t, table()), table()
	require.NoError(t, d.exec(t.Context(), "CREATE TABLE "+data+" (n bigint)"))
	require.NoError(t, d.exec(t.Context(), "INSERT INTO "+data+" VALUES (0)"))
	value := int64(0)
	for _, isolation := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
		for _, row := range []string{"none yet", "there"} {
			ctx, name := soon(t), isolation.String()+row
			if row == "there" {
				require.NoError(t, d.register(ctx, f, name, 1))
			}
			older := d.begin(t, isolation)
			require.NoError(t, older.guard(ctx, f, name, 1))

			began := time.Now()
			err := d.register(peer.Within(t, 50*time.Millisecond), f, name, 2)
			require.ErrorIs(t, err, context.DeadlineExceeded, "the row is locked")
			require.NotErrorIs(t, err, fence.ErrStale)
			require.Less(t, time.Since(began), 10*time.Second)

			newer := d.begin(t, isolation)
			guarded := make(chan error)
			go func() { guarded <- newer.guard(ctx, f, name, 2) }()
			value++
			require.NoError(t, older.exec(ctx, "UPDATE "+data+" SET n = n + 1"))
			require.NoError(t, older.commit(ctx))
			err = <-guarded
			if err != nil {
				var conflict *pgconn.PgError
				require.ErrorAs(t, err, &conflict)
				require.Equal(t, "40001", conflict.Code)
				require.Contains(t, []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable}, isolation)
				require.Error(t, newer.commit(ctx))
				newer = d.begin(t, isolation)
				require.NoError(t, newer.guard(ctx, f, name, 2))
			}
			var got int64
			require.NoError(t, newer.number(ctx, "SELECT n FROM "+data, &got))
			require.Equal(t, value, got, "%s, row %s", isolation, row)
			require.NoError(t, newer.commit(ctx))
			require.ErrorIs(t, d.register(ctx, f, name, 1), fence.ErrStale)
		}
	}
}

// Tables in another schema, and with names that must be quoted. A missing table is an error, not a pass.
func testTables(t *testing.T, d door) {
	ctx := soon(t)
	f := peer.Must(sqlfence.New(d.dialect, "no_such_table"))(t)
	tx := d.begin(t, sql.LevelDefault)
	err := tx.guard(ctx, f, "n", 1)
	fencetest.Errors("sqlfence").OneLine(t, err, "no_such_table")
	require.NotErrorIs(t, err, fence.ErrStale)
	require.Error(t, tx.commit(ctx))
	schema := map[sqlfence.Dialect]string{sqlfence.Postgres: "public", sqlfence.MySQL: "lockport"}[d.dialect]
	for i, table := range []string{"Tokens", schema + ".order", "select"} {
		f := d.fence(t, table)
		require.NoError(t, d.register(ctx, f, "n", lockport.Token(9-i)), table)
		require.ErrorIs(t, d.register(ctx, f, "n", lockport.Token(9-i-1)), fence.ErrStale, table)
	}
	require.EqualValues(t, 1, d.number(t, "SELECT count(*) FROM information_schema.tables WHERE table_name = 'order' AND table_schema = '"+schema+"'"))
}

// A refused guard rolls back a savepoint, but not the transaction around it. An error of pgx becomes one line.
func testSavepoint(t *testing.T, d door) {
	ctx := soon(t)
	f := d.fence(t, table())
	require.NoError(t, d.register(ctx, f, "n", 5))
	conn := peer.Must(pgx.ConnectConfig(ctx, d.pool.Config().ConnConfig))(t)
	defer func() { _ = conn.Close(ctx) }()
	outer := peer.Must(conn.Begin(ctx))(t)
	inner := peer.Must(outer.Begin(ctx))(t)
	require.ErrorIs(t, f.GuardPgx(ctx, inner, "n", 4), fence.ErrStale)
	require.ErrorIs(t, inner.Commit(ctx), pgx.ErrTxClosed)
	require.NoError(t, f.GuardPgx(ctx, outer, "n", 6))
	require.NoError(t, outer.Commit(ctx))
	require.ErrorIs(t, d.register(ctx, f, "n", 5), fence.ErrStale)

	down := via(t, "pgx", "postgres://app:secret@127.0.0.1:1/db")
	fencetest.Errors("sqlfence").OneLine(t, down.register(ctx, f, "n", 7), "refused")
	tx := peer.Must(conn.Begin(ctx))(t)
	require.ErrorContains(t, peer.Must(sqlfence.New(sqlfence.MySQL, ""))(t).GuardPgx(ctx, tx, "n", 7), "Postgres")
	require.ErrorIs(t, tx.Commit(ctx), pgx.ErrTxClosed)
}

// docs/fencing.md shows the statements word for word.
func TestDocumentedStatements(t *testing.T) {
	page := pages.Read(t, "fencing.md")
	for _, d := range []sqlfence.Dialect{sqlfence.Postgres, sqlfence.MySQL} {
		f := peer.Must(sqlfence.New(d, ""))(t)
		require.Contains(t, page, f.Schema()+";")
		require.Contains(t, strings.ReplaceAll(page, "\n", " "), sqlfence.GuardStatement(f)+";")
	}
}

func TestNewRefuses(t *testing.T) {
	for _, table := range []string{" ", "a b", "a.b.c", ".", "a.", ".a", `a"b`, "a`b", "1a", "ä", "a;b", strings.Repeat("a", 64)} {
		for _, dialect := range []sqlfence.Dialect{sqlfence.Postgres, sqlfence.MySQL} {
			require.ErrorContains(t, peer.ErrOf(sqlfence.New(dialect, table)), "the table", table)
		}
	}
	for _, dialect := range []sqlfence.Dialect{0, 3, -1} {
		require.ErrorContains(t, peer.ErrOf(sqlfence.New(dialect, "")), "dialect")
	}
}
