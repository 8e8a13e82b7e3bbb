package mysql

import (
	"bytes"
	"context"
	"testing"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
)

func TestMain(m *testing.M) { peer.Main(m, 0) }

// isOp classifies requests by their statements.
func isOp(op conformance.Op, request []byte) bool {
	switch op {
	case conformance.OpAcquire:
		return bytes.Contains(request, []byte("SELECT CONCAT(COALESCE(GET_LOCK("))
	case conformance.OpRenew:
		return bytes.Contains(request, []byte("SELECT CONCAT(COALESCE(IS_USED_LOCK('"+markerPrefix)) && bytes.Contains(request, []byte("=CONNECTION_ID()"))
	case conformance.OpRelease:
		return bytes.Contains(request, []byte("SELECT CONCAT(COALESCE(RELEASE_LOCK("))
	}
	return true
}

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
