package nats

import (
	"bytes"
	"regexp"
	"testing"
	"time"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/peer"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	config := one.Need(t).Config(t, peer.Open, isOp)
	config.MinTTL = 2 * time.Second // of one, counted in whole seconds, a busy machine leaves too little for renewals
	conformance.Test(t, config)
}

// A client asks one of three servers, so that no proxy can choose a request.
func TestConformanceCluster(t *testing.T) {
	environment.OnlyInSoak(t)
	conformance.Test(t, three.Need(t).Unproxied(peer.Open))
}

var claims, renewals = regexp.MustCompile(`\r\n\r\n\S+ \d+\r\n`), regexp.MustCompile(`\r\n\r\n\S+ \d+ \d+\r\n`)

// isOp recognises requests by what they write.
func isOp(op conformance.Op, request []byte) bool {
	switch op {
	case conformance.OpAcquire:
		return claims.Match(request)
	case conformance.OpRenew:
		return renewals.Match(request)
	case conformance.OpRelease:
		return bytes.Contains(request, []byte("KV-Operation: PURGE"))
	}
	return true
}
