package mysql

import (
	"context"
	"regexp"
	"testing"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
)

func TestMain(m *testing.M) { peer.Main(m, 0) }

// isOp classifies requests by their statements.
var isOp = peer.Ops{
	conformance.OpAcquire: peer.With("SELECT CONCAT(COALESCE(GET_LOCK("),
	conformance.OpRenew:   regexp.MustCompile(`SELECT CONCAT\(COALESCE\(IS_USED_LOCK\('` + regexp.QuoteMeta(markerPrefix) + `.*=CONNECTION_ID\(\)`).Match,
	conformance.OpRelease: peer.With("SELECT CONCAT(COALESCE(RELEASE_LOCK("),
}.Is

func openBare(ctx context.Context, rawURL string) (driver.Backend, error) {
	b, err := peer.Open(ctx, rawURL)
	if err != nil {
		return nil, err
	}
	whole := b.(*Backend)
	return bare{whole, whole, whole}, nil
}

// bare is a backend without Inspect, Break and Check.
type bare struct {
	driver.Backend
	driver.Waiter
	driver.BatchRenewer
}
