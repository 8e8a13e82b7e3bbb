package sqlfence_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/fence"
	"github.com/lockport/lockport/fence/sqlfence"
)

// hanging is a driver of database/sql whose statements find the token seen, and whose transactions never end.
type hanging struct {
	seen   int64
	thawed chan struct{}
}

func (h hanging) Connect(context.Context) (driver.Conn, error)                 { return h, nil }
func (h hanging) Driver() driver.Driver                                        { return nil }
func (h hanging) Prepare(string) (driver.Stmt, error)                          { return nil, errors.ErrUnsupported }
func (h hanging) Close() error                                                 { return nil }
func (h hanging) Begin() (driver.Tx, error)                                    { return h, nil }
func (h hanging) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) { return h, nil }
func (h hanging) LastInsertId() (int64, error)                                 { return h.seen, nil }
func (h hanging) RowsAffected() (int64, error)                                 { return 0, nil }
func (h hanging) Commit() error                                                { <-h.thawed; return nil }
func (h hanging) Rollback() error                                              { <-h.thawed; return nil }
func (h hanging) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	return h, nil
}

// silent is a server that does not return the argument of LAST_INSERT_ID, and has seen the token 6.
type silent struct {
	hanging
	read *bool
}

func (s silent) Connect(context.Context) (driver.Conn, error) { return s, nil }

func (s silent) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	*s.read = false
	return s, nil
}

func (s silent) Columns() []string { return []string{"token"} }

func (s silent) Next(values []driver.Value) error {
	if *s.read {
		return io.EOF
	}
	*s.read, values[0] = true, int64(6)
	return nil
}

// An acknowledgement without a token does not prove that the row is new.
func TestGuardAsksWhereItIsNotTold(t *testing.T) {
	f, err := sqlfence.New(sqlfence.MySQL, "")
	require.NoError(t, err)
	thawed := make(chan struct{})
	close(thawed)
	db := sql.OpenDB(silent{hanging{0, thawed}, new(bool)})
	defer db.Close()
	require.ErrorIs(t, f.Register(t.Context(), db, "n", 5), fence.ErrStale)
	require.NoError(t, f.Register(t.Context(), db, "n", 6))
	err = f.Register(t.Context(), db, "n", 7)
	require.ErrorContains(t, err, "the row has 6", "it was not kept")
	require.NotErrorIs(t, err, fence.ErrStale)
}

// Commit and Rollback of database/sql take no context. The fence stops waiting for them when its own context ends.
func TestCommitAndRollbackWithinTheContext(t *testing.T) {
	f, err := sqlfence.New(sqlfence.MySQL, "")
	require.NoError(t, err)
	for seen, reason := range map[int64]error{5: context.DeadlineExceeded, 6: fence.ErrStale} { // committed, rolled back
		synctest.Test(t, func(t *testing.T) {
			h := hanging{seen, make(chan struct{})}
			db := sql.OpenDB(h)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			began := time.Now()
			require.ErrorIs(t, f.Register(ctx, db, "n", 5), reason)
			require.Equal(t, time.Second, time.Since(began))
			close(h.thawed)
			synctest.Wait()
			require.NoError(t, db.Close())
		})
	}
}
