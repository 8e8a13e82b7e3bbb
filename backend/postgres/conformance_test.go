package postgres

import (
	"context"
	"database/sql"
	"testing"

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
