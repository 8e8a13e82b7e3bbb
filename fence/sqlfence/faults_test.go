package sqlfence_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/fence"
	"github.com/lockport/lockport/fence/sqlfence"
	"github.com/lockport/lockport/internal/lab/servers"
)

// A guard in a transaction that began before the server fell silent fails within its context, and the transaction cannot be committed.
func TestSilentServer(t *testing.T) {
	run := func(t *testing.T, freeze, thaw func() error, ways ...door) {
		fences, opened := make([]*sqlfence.Fence, len(ways)), make([]session, len(ways))
		for i, d := range ways {
			fences[i], opened[i] = d.fence(t, table()), d.open(t)
		}
		require.NoError(t, freeze())
		t.Cleanup(func() { require.NoError(t, thaw()) })
		for i, tx := range opened {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			failed := make(chan error, 1)
			go func() { failed <- tx.guard(ctx, fences[i], "n", 6) }()
			select {
			case err := <-failed:
				require.Error(t, err)
				require.NotErrorIs(t, err, fence.ErrStale)
			case <-time.After(20 * time.Second):
				t.Fatal("hangs after its context has ended")
			}
			cancel()
			require.Error(t, tx.commit(t.Context()), "rolled back, or its connection is gone")
		}
	}
	t.Run("postgres", func(t *testing.T) {
		p := servers.NeedPostgres(t, servers.PostgresOptions{})
		run(t, p.Freeze, p.Thaw, viaPgx(t, p.URL()), viaSQL(t, sqlfence.Postgres, p.URL()))
	})
	t.Run("mariadb", func(t *testing.T) {
		m := servers.NeedMariaDB(t, servers.MariaDBOptions{})
		run(t, m.Freeze, m.Thaw, viaSQL(t, sqlfence.MySQL, m.DSN()))
	})
}

// A refused guard rolls back a savepoint, but not the transaction around it.
func testSavepoint(t *testing.T, d door) {
	ctx := soon(t)
	f := d.fence(t, table())
	require.NoError(t, d.register(ctx, f, "n", 5))
	outer := d.open(t).(pgxTx)
	inner, err := outer.Begin(ctx)
	require.NoError(t, err)
	require.ErrorIs(t, f.GuardPgx(ctx, inner, "n", 4), fence.ErrStale)
	require.ErrorIs(t, inner.Commit(ctx), pgx.ErrTxClosed)
	require.NoError(t, outer.guard(ctx, f, "n", 6))
	require.NoError(t, outer.commit(ctx))
	require.ErrorIs(t, d.register(ctx, f, "n", 5), fence.ErrStale)

	tx := d.open(t).(pgxTx)
	other, err := sqlfence.New(sqlfence.MySQL, "")
	require.NoError(t, err)
	require.ErrorContains(t, other.GuardPgx(ctx, tx, "n", 7), "Postgres")
	require.ErrorIs(t, tx.commit(ctx), pgx.ErrTxClosed)
}
