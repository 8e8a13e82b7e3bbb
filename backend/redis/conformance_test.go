package redis

import (
	"testing"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/redisscript"
)

func TestConformance(t *testing.T) {
	conformance.Test(t, environment.Need(t, "redis").Config(t, peer.Open, isOp))
}

func TestConformanceSentinel(t *testing.T) {
	conformance.Test(t, environment.Need(t, "redis-sentinel").Unproxied(peer.Open), environment.Breakable())
}

func TestConformanceCluster(t *testing.T) {
	conformance.Test(t, environment.Need(t, "redis-cluster").Unproxied(peer.Open), environment.Breakable("names", "optional", "shared", "permits"))
}

// isOp recognizes requests by the scripts that they call.
var isOp = peer.Ops{
	conformance.OpAcquire: func(r []byte) bool { return redisscript.Acquire.Names(r) || redisscript.Requeue.Names(r) },
	conformance.OpRenew:   redisscript.Renew.Names,
	conformance.OpRelease: redisscript.Release.Names,
}.Is
