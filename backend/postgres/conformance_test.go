package postgres

import (
	"bytes"
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/peer"
)

func TestConformance(t *testing.T) {
	conformance.Test(t, environment.Need(t, "postgres").Config(t, peer.Open, isOp))
}

// TestConformanceDB runs on connections from a sql.DB.
func TestConformanceDB(t *testing.T) {
	p := ownDatabase(t)
	db := dbAt(t, p.URL(), func(*pgx.ConnConfig) {})
	conformance.Test(t, conformance.Config{
		Open:   func(context.Context, string) (driver.Backend, error) { return NewDBBackend(db, Options{TTL: testTTL}) },
		Target: p.URL(),
	}, conformance.Quick())
}

// isOp classifies requests by the names of the statements that they execute or prepare.
func isOp(op conformance.Op, request []byte) bool {
	return !bytes.Contains(request, []byte("SELECT")) && peer.Ops{
		conformance.OpAcquire: peer.With("lp_try", "lp_wait"), conformance.OpRenew: peer.With("lp_ping"), conformance.OpRelease: peer.With("lp_free"),
	}.Is(op, request)
}
