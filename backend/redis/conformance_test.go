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
func isOp(op conformance.Op, request []byte) bool {
	switch op {
	case conformance.OpAcquire:
		return redisscript.Acquire.Names(request) || redisscript.Requeue.Names(request)
	case conformance.OpRenew:
		return redisscript.Renew.Names(request)
	case conformance.OpRelease:
		return redisscript.Release.Names(request)
	}
	return true
}
