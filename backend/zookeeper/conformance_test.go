package zookeeper

import (
	"context"
	"testing"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/peer"
)

func TestConformance(t *testing.T) {
	conformance.Test(t, environment.Need(t, "zookeeper-suite").Config(t, peer.Open, isOp))
}

func TestConformanceEnsemble(t *testing.T) {
	environment.OnlyInSoak(t)
	conformance.Test(t, environment.Need(t, "zookeeper").Unproxied(peer.Open))
}

// The cases that need no network fault, on a caller's connection.
func TestConformanceShared(t *testing.T) {
	conformance.Test(t, environment.Need(t, "zookeeper-suite").Unproxied(openShared), conformance.Quick())
}

// The readers and writers of Curator's InterProcessReadWriteLock.
func TestConformanceReadWriteLock(t *testing.T) {
	environment.OnlyInSoak(t)
	open := func(ctx context.Context, url string) (driver.Backend, error) {
		return peer.Open(ctx, url+"&read_write_lock=true")
	}
	shared := conformance.Match(func(c conformance.Case) bool { return c.Group == "shared" })
	conformance.Test(t, environment.Need(t, "zookeeper-suite").Config(t, open, isOp), shared)
}
