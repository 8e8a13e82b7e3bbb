package postgres

import (
	"bytes"
	"testing"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/internal/lab/peer"
)

func TestMain(m *testing.M) { peer.Main(m, 0) }

// isOp classifies requests by the names of the statements that they execute or prepare.
func isOp(op conformance.Op, request []byte) bool {
	return !bytes.Contains(request, []byte("SELECT")) && peer.Ops{
		conformance.OpAcquire: peer.With("lp_try", "lp_wait"), conformance.OpRenew: peer.With("lp_ping"), conformance.OpRelease: peer.With("lp_free"),
	}.Is(op, request)
}
