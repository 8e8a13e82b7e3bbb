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

// TestConformanceBare: no tokens and no table, one connection to wait on, and no faults. Only the id of the holder's session is then known, which is
// less than the suite requires of an Inspector.
func TestConformanceBare(t *testing.T) {
	conformance.Test(t, conformance.Config{Open: openBare, Target: servers.SharedMariaDB(t).URL() + "?tokens=false&blockers=1&ttl=2s"})
}
