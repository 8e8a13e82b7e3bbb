package etcd

import (
	"context"
	"runtime/pprof"
	"testing"
	"time"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/internal/lab/servers"
)

// steady is the longest tick that leaves the smallest TTL at 1 s: a busy machine elects a leader less often.
const steady = 60 * time.Millisecond

func TestConformanceCluster(t *testing.T) {
	t.Parallel()
	c := servers.NeedEtcdCluster(t, servers.EtcdOptions{Tick: steady})
	f := keyFaults(newClient(t, c.URL()))
	f.Restart = func(ctx context.Context, keepData bool) error {
		if !keepData {
			return conformance.ErrNoFault
		}
		return unlabelled(func() error { return c.Restart(ctx) })
	}
	conformance.Test(t, conformance.Config{Open: openBackend, Target: c.URL(), Faults: f})
}

// unlabelled runs f, which starts processes, in a goroutine that is not the case's: by its labels the suite looks for leaks.
func unlabelled(f func() error) error {
	done := make(chan error)
	go func() {
		pprof.SetGoroutineLabels(context.Background())
		done <- f()
	}()
	return <-done
}
