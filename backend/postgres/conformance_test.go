package postgres

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/peer"
)

func TestConformance(t *testing.T) {
	conformance.Test(t, environment.Need(t, "postgres").Config(t, peer.Open, isOp))
}

// TestConformanceDB is on connections out of a sql.DB.
func TestConformanceDB(t *testing.T) {
	conformance.Test(t, conformance.Config{
		Open: func(_ context.Context, target string) (driver.Backend, error) {
			db, err := sql.Open("pgx", target)
			if err != nil {
				return nil, err
			}
			b, err := NewDBBackend(db, Options{TTL: testTTL})
			return ownDB{b, db}, err
		},
		Target: database(t).URL(),
	}, conformance.Quick())
}

type ownDB struct {
	*Backend
	db *sql.DB
}

func (b ownDB) Close() error { return errors.Join(b.Backend.Close(), b.db.Close()) }

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
