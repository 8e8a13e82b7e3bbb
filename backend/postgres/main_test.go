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
	if bytes.Contains(request, []byte("SELECT")) {
		return false
	}
	switch op {
	case conformance.OpAcquire:
		return bytes.Contains(request, []byte("lp_try")) || bytes.Contains(request, []byte("lp_wait"))
	case conformance.OpRenew:
		return bytes.Contains(request, []byte("lp_ping"))
	case conformance.OpRelease:
		return bytes.Contains(request, []byte("lp_free"))
	}
	return true
}
