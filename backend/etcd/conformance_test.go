package etcd

import (
	"context"
	"regexp"
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

// These match protobuf messages: a put of our value, the deletion of a key, and a keep-alive, which is a lease's id of 8 to 10 bytes.
var (
	puts       = regexp.MustCompile(`(?s)\x12.{1,2}` + valueTag).Match
	deletes    = regexp.MustCompile(`(?s)\x1a.{1,2}\n.{1,2}` + defaultPrefix).Match
	keepsAlive = regexp.MustCompile(`\x00{4}[\t-\x0b]\x08`).Match
)

// isOp classifies requests. A requeue deletes a key and puts another: it is a claim.
var isOp = peer.Ops{
	conformance.OpAcquire: puts,
	conformance.OpRenew:   keepsAlive,
	conformance.OpRelease: func(request []byte) bool { return deletes(request) && !puts(request) },
}.Is
