package sqlfence_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/fence/sqlfence"
	"github.com/lockport/lockport/internal/lab/peer"
)

// hanging is a driver of database/sql whose statements find the token seen, and whose transactions never end.
type hanging struct {
	driver.Conn
	seen   int64
	thawed chan struct{}
}

func (h hanging) Connect(context.Context) (driver.Conn, error)                 { return h, nil }
func (h hanging) Driver() driver.Driver                                        { return nil }
func (h hanging) Close() error                                                 { return nil }
func (h hanging) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) { return h, nil }
func (h hanging) LastInsertId() (int64, error)                                 { return h.seen, nil }
func (h hanging) RowsAffected() (int64, error)                                 { return 0, nil }
func (h hanging) Commit() error                                                { <-h.thawed; return nil }
func (h hanging) Rollback() error                                              { <-h.thawed; return nil }
func (h hanging) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	return h, nil
}

// Commit and Rollback of database/sql take no context. The fence stops waiting for them when its own context ends. An acknowledgement without the
// row's token does not prove that the holder may write.
func TestCommitAndRollbackWithinTheContext(t *testing.T) {
	f := peer.Must(sqlfence.New(sqlfence.MySQL, ""))(t)
	for seen, reason := range map[int64]string{5: context.DeadlineExceeded.Error(), 6: "is stale", 0: "the row has 0"} { // 5 is committed
		synctest.Test(t, func(t *testing.T) {
			h := hanging{nil, seen, make(chan struct{})}
			db := sql.OpenDB(h)
			began := time.Now()
			require.ErrorContains(t, f.Register(peer.Within(t, time.Second), db, "n", 5), reason)
			require.Equal(t, time.Second, time.Since(began))
			close(h.thawed)
			synctest.Wait()
			require.NoError(t, db.Close())
		})
	}
}
