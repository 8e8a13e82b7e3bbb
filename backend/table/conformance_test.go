package table

import (
	"testing"
	"time"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/internal/lab/environment"
)

func TestConformancePgBouncer(t *testing.T) { conforms(t, "table-pgbouncer") }

// MariaDB has statements of its own.
func TestConformanceMariaDB(t *testing.T) {
	conforms(t, "table-mysql", environment.Breakable("unknown", "ownership", "names", "optional", "close"))
}

// TestConformanceMySQL is skipped where MySQL's own server is not installed.
func TestConformanceMySQL(t *testing.T) {
	conforms(t, "table-mysql-own", environment.Breakable("unknown", "ownership", "names", "optional", "close"))
}

// Postgres without PgBouncer has little that PgBouncer does not show.
func TestConformancePostgres(t *testing.T) {
	environment.OnlyInSoak(t)
	conforms(t, "table-postgres")
}

// conforms runs the suite beside those on other servers: most cases wait for time to pass.
func conforms(t *testing.T, env string, opts ...conformance.RunOption) {
	t.Parallel()
	cfg := environment.Need(t, env).Config(t, openURL, isOp)
	cfg.MinTTL = 2 * time.Second // each request is a commit, which takes a busy machine its time
	conformance.Test(t, cfg, opts...)
}
