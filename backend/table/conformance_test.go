package table

import (
	"testing"
	"time"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/internal/lab/environment"
)

func TestConformancePgBouncer(t *testing.T) { conforms(t, "table-pgbouncer") }

// MariaDB needs its own statements.
func TestConformanceMariaDB(t *testing.T) {
	conforms(t, "table-mysql", environment.Breakable("unknown", "ownership", "names", "optional", "close"))
}

// Postgres without PgBouncer: PgBouncer covers most of it.
func TestConformancePostgres(t *testing.T) {
	environment.OnlyInSoak(t)
	conforms(t, "table-postgres")
}

// conforms runs the suite in parallel with those on other servers: most cases just wait.
func conforms(t *testing.T, env string, opts ...conformance.RunOption) {
	t.Parallel()
	cfg := environment.Need(t, env).Config(t, openURL, isOp)
	cfg.MinTTL = 2 * time.Second // each request is a commit, which is slow on a busy machine
	conformance.Test(t, cfg, append(opts, conformance.Parallel(4))...)
}
