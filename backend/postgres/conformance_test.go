package postgres

import (
	"bytes"
	"testing"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/peer"
)

func TestConformance(t *testing.T) {
	conformance.Test(t, environment.Need(t, "postgres").Config(t, peer.Open, isOp))
}

// isOp tells requests apart by the names of the statements that they carry out, or only prepare.
func isOp(op conformance.Op, request []byte) bool {
	if op != conformance.OpAny && bytes.Contains(request, []byte("SELECT")) {
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
