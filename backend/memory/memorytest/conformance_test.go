package memorytest_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/backend/memory/memorytest"
	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
)

func TestConformance(t *testing.T) {
	server, faults := memory.NewServer(), new(memorytest.Faults)
	observer := memory.NewBackend(memory.Options{Server: server})
	calls := map[conformance.Op]memorytest.Call{
		conformance.OpAcquire: memorytest.Claim, conformance.OpRenew: memorytest.Renew, conformance.OpRelease: memorytest.Release,
	}
	down := fmt.Errorf("%w: the server is down", driver.ErrUnavailable)
	var foreign atomic.Int64
	conformance.Test(t, conformance.Config{
		Open: func(_ context.Context, target string) (driver.Backend, error) {
			if target == "direct" {
				return memory.NewBackend(memory.Options{Server: server}), nil
			}
			return memorytest.NewBackend(server, faults), nil
		},
		Direct: "direct",
		Local:  true,
		MinTTL: 500 * time.Millisecond,
		Faults: conformance.Faults{
			Restore: func() { faults.Fail(nil); faults.Resume(); faults.Delay(0) },
			Sever:   func(context.Context) error { faults.Fail(down); return nil },
			Cut:     func(context.Context) error { faults.Fail(down); faults.Fail(nil); return nil },
			Freeze:  func(context.Context) error { faults.Pause(); return nil },
			Delay:   func(_ context.Context, d time.Duration) error { faults.Delay(d); return nil },
			DropReply: func(_ context.Context, op conformance.Op) (<-chan struct{}, error) {
				call, ok := calls[op]
				if !ok {
					return nil, conformance.ErrNoFault
				}
				return faults.LoseNextReply(call), nil
			},
			Remove: func(_ context.Context, name string) error { server.Lose(name, nil); return nil },
			Overwrite: func(ctx context.Context, name string) error {
				for {
					server.Lose(name, nil)
					owner := fmt.Sprintf("foreign-%d", foreign.Add(1)) // no id of a lockport client
					_, err := observer.TryAcquire(ctx, driver.Request{Name: name, Owner: owner, TTL: time.Hour})
					if !errors.Is(err, driver.ErrHeld) { // else somebody who waits was quicker
						return err
					}
				}
			},
			Leftovers: func(ctx context.Context, prefix string) ([]string, error) {
				all, err := observer.List(ctx, prefix)
				var names []string
				for _, st := range all {
					names = append(names, fmt.Sprintf("%+v", st))
				}
				return names, err
			},
			Requests: func(context.Context) (int64, error) {
				var n int
				for call := memorytest.Claim; call <= memorytest.Look; call++ {
					n += faults.Calls(call)
				}
				return int64(n), nil
			},
		},
	})
}
