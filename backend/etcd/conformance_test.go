package etcd

import (
	"context"
	"testing"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/peer"
)

func TestConformance(t *testing.T) { conform(t, "etcd-suite") }

func TestConformanceCurrent(t *testing.T) {
	conform(t, "etcd-current-suite", environment.Breakable("silence", "unknown"))
}

func TestConformanceCluster(t *testing.T) {
	environment.OnlyInSoak(t)
	conformance.Test(t, environment.Need(t, "etcd").Unproxied(peer.Open))
}

// conform runs the suite on one server.
func conform(t *testing.T, name string, opts ...conformance.RunOption) {
	r := environment.Need(t, name)
	cfg := r.Config(t, peer.Open, isOp)
	server := r.Servers.(*environment.Etcd).Members[0]
	cfg.Faults.Requests = func(ctx context.Context) (int64, error) { return requestsOf(ctx, server) } // a proxy would also count answers to pings
	conformance.Test(t, cfg, opts...)
}
