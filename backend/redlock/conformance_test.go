package redlock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/internal/lab/environment"
)

func TestConformance(t *testing.T) { conform(t, "redlock-saving") }

func TestConformanceOfThree(t *testing.T) { conform(t, "redlock-three", environment.Breakable()) }

func TestConformanceWithADeadNode(t *testing.T) {
	conform(t, "redlock-saving", environment.Breakable("unknown", "ownership"))
}

// conform runs the suite. Where a variant is tried, the second of five nodes is dead from the start.
func conform(t *testing.T, name string, opts ...conformance.RunOption) {
	r := environment.Need(t, name)
	if len(opts) > 0 && len(r.Nodes()) == 5 {
		require.NoError(t, r.Nodes()[1].Kill())
	}
	cfg := r.Config(t, openURL, isOp)
	cfg.MinTTL, cfg.Lanes = 2*time.Second, cfg.Lanes[:2] // the nodes share one machine
	conformance.Test(t, cfg, append(opts, conformance.Parallel(4))...)
}
