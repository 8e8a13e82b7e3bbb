package redlock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/peer"
)

func TestConformance(t *testing.T) { conform(t, environment.Need(t, "redlock-saving")) }

func TestConformanceOfThree(t *testing.T) {
	environment.OnlyInSoak(t)
	conform(t, environment.Need(t, "redlock-three"))
}

func TestConformanceWithADeadNode(t *testing.T) {
	environment.OnlyInSoak(t)
	r := environment.Need(t, "redlock-saving")
	require.NoError(t, r.Nodes()[1].Kill())
	conform(t, r)
}

func conform(t *testing.T, r *environment.Running) {
	cfg := r.Config(t, peer.Open, isOp)
	cfg.MinTTL, cfg.Lanes = 2*time.Second, cfg.Lanes[:2] // the nodes share one machine
	conformance.Test(t, cfg, conformance.Parallel(4))
}
