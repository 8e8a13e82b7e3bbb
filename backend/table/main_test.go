package table

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
)

// made has the URLs whose tables this process has created.
var made sync.Map

// openURL is peer.Open, but the first call for a URL creates the table.
func openURL(ctx context.Context, rawURL string) (driver.Backend, error) {
	b, err := peer.Open(ctx, rawURL)
	if err != nil {
		return nil, err
	}
	if _, done := made.LoadOrStore(rawURL, true); !done {
		err = b.(*Backend).makeTable(ctx)
	}
	return b, err
}

func TestMain(m *testing.M) {
	_ = mysql.SetLogger(&mysql.NopLogger{}) // do not print errors of cut connections
	conformance.WorkerMain(openURL)
	os.Exit(m.Run())
}

// isOp classifies requests by their statements.
var isOp = peer.Ops{
	conformance.OpAcquire: peer.With("greatest(", "LAST_INSERT_ID("),
	conformance.OpRenew:   peer.With("UPDATE lockport_locks SET expires"),
	conformance.OpRelease: peer.With("UPDATE lockport_locks SET owner = ''"),
}.Is
