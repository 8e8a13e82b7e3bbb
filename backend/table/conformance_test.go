package table

import (
	"testing"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/internal/lab/environment"
)

func TestConformancePostgres(t *testing.T) {
	conformance.Test(t, environment.Need(t, "table-postgres").Config(t, openURL, isOp))
}

func TestConformancePgBouncer(t *testing.T) {
	conformance.Test(t, environment.Need(t, "table-pgbouncer").Config(t, openURL, isOp))
}

func TestConformanceMariaDB(t *testing.T) {
	conformance.Test(t, environment.Need(t, "table-mysql").Config(t, openURL, isOp))
}

// TestConformanceMySQL is skipped where MySQL's own server is not installed.
func TestConformanceMySQL(t *testing.T) {
	conformance.Test(t, environment.Need(t, "table-mysql-own").Config(t, openURL, isOp))
}
