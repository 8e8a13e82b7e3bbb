package mysql

import (
	"testing"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
)

func TestConformance(t *testing.T) {
	conformance.Test(t, environment.Need(t, "mysql").Config(t, peer.Open, isOp))
}

// TestConformanceMySQL is skipped where MySQL's own server is not installed.
func TestConformanceMySQL(t *testing.T) {
	conformance.Test(t, environment.Need(t, "mysql-own").Config(t, peer.Open, isOp))
}

// TestConformanceBare is without tokens, and so without a table, with one connection to wait on, and without faults. The number of the holder's session is
// all that is known of it then, which is less than the suite asks of an Inspector.
func TestConformanceBare(t *testing.T) {
	conformance.Test(t, conformance.Config{Open: openBare, Target: servers.SharedMariaDB(t).URL() + "?tokens=false&blockers=1&ttl=" + testTTL.String()})
}
