package zookeeper

import (
	"testing"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/internal/lab/environment"
)

func TestConformance(t *testing.T) {
	conformance.Test(t, environment.Need(t, "zookeeper-suite").Config(t, openURL, isOp))
}

func TestConformanceEnsemble(t *testing.T) {
	conformance.Test(t, environment.Need(t, "zookeeper").Unproxied(openURL), environment.Breakable())
}

// The cases on a connection of the caller's that need no fault of a network's.
func TestConformanceShared(t *testing.T) {
	conformance.Test(t, environment.Need(t, "zookeeper-suite").Unproxied(openShared), conformance.Quick())
}
