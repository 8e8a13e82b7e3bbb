package table

import (
	"testing"
	"time"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/internal/lab/environment"
)

func TestConformancePostgres(t *testing.T)  { conforms(t, "table-postgres") }
func TestConformancePgBouncer(t *testing.T) { conforms(t, "table-pgbouncer") }
func TestConformanceMariaDB(t *testing.T)   { conforms(t, "table-mysql") }

// TestConformanceMySQL is skipped where MySQL's own server is not installed.
func TestConformanceMySQL(t *testing.T) { conforms(t, "table-mysql-own") }

func conforms(t *testing.T, env string) {
	cfg := environment.Need(t, env).Config(t, openURL, isOp)
	cfg.MinTTL = 2 * time.Second // each request is a commit, which takes a busy machine its time
	conformance.Test(t, cfg)
}
