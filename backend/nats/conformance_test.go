package nats

import (
	"regexp"
	"testing"
	"time"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/peer"
)

// minTTL is not 1 s: in whole seconds that leaves renewals too little time on a busy machine.
const minTTL = 2 * time.Second

func TestConformance(t *testing.T) {
	t.Parallel()
	config := one.Need(t).Config(t, peer.Open, isOp)
	config.MinTTL = minTTL
	conformance.Test(t, config)
}

// A client asks any of three servers, so no proxy can select a request.
func TestConformanceCluster(t *testing.T) {
	environment.OnlyInSoak(t)
	config := three.Need(t).Unproxied(peer.Open)
	config.MinTTL = minTTL
	conformance.Test(t, config)
}

// isOp classifies requests by what they write.
var isOp = peer.Ops{
	conformance.OpAcquire: regexp.MustCompile(`\r\n\r\n\S+ \d+\r\n`).Match,
	conformance.OpRenew:   regexp.MustCompile(`\r\n\r\n\S+ \d+ \d+\r\n`).Match,
	conformance.OpRelease: peer.With("KV-Operation: PURGE"),
}.Is
