package exhibits

import (
	"context"
	"sync"
	"time"

	"github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/backend/memory/memorytest"
	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
)

// config returns a Config for the sound lock as changed by spoil, with five networks before a new server.
func config(spoil func(*lock)) conformance.Config {
	const target, direct = "wire://user:hunter2@localhost", "direct" // errors must not show the password
	server, shared := memory.NewServer(), new(sync.Map)
	networks := make(map[string]*network)
	lane := func(target string) conformance.Lane {
		networks[target] = new(network)
		return conformance.Lane{Target: target, Faults: faults(server, networks[target])}
	}
	cfg := conformance.Config{Target: target, Direct: direct, Local: true, Faults: lane(target).Faults}
	for _, path := range []string{"/1", "/2", "/3", "/4"} {
		cfg.Lanes = append(cfg.Lanes, lane(target+path))
	}
	cfg.Open = func(_ context.Context, target string) (driver.Backend, error) {
		if target == direct {
			return memory.NewBackend(memory.Options{Server: server}), nil
		}
		l := newLock(server, networks[target], shared)
		spoil(l)
		return l.as, nil
	}
	return cfg
}

// calls maps the kinds of requests that faults can tell apart.
var calls = map[conformance.Op]memorytest.Call{
	conformance.OpAcquire: memorytest.Claim, conformance.OpRenew: memorytest.Renew, conformance.OpRelease: memorytest.Release,
}

// faults returns the faults of a network, and of the server behind it.
func faults(server *memory.Server, net *network) conformance.Faults {
	observer := memory.NewBackend(memory.Options{Server: server})
	return conformance.Faults{
		Restore: net.Restore,
		Sever:   func(context.Context) error { net.Fail(driver.ErrUnavailable); return nil },
		Cut:     func(context.Context) error { net.Cut(); return nil },
		Freeze:  func(context.Context) error { net.Pause(); return nil },
		Delay:   func(_ context.Context, d time.Duration) error { net.Delay(d); return nil },
		DropReply: func(_ context.Context, op conformance.Op) (<-chan struct{}, error) {
			return net.LoseNextReply(calls[op]), nil
		},
		CutAfter: func(_ context.Context, n int) (<-chan struct{}, error) { return net.CutAfter(n), nil },
		Remove:   func(_ context.Context, name string) error { server.Lose(name, nil); return nil },
		Overwrite: func(ctx context.Context, name string) error {
			for {
				server.Lose(name, nil)
				_, err := observer.TryAcquire(ctx, driver.Request{Name: name, Owner: "somebody", TTL: time.Hour})
				if !isHeld(err) { // otherwise a waiter was faster
					return err
				}
			}
		},
		Leftovers: func(ctx context.Context, prefix string) ([]string, error) {
			all, err := observer.List(ctx, prefix)
			var names []string
			for _, st := range all {
				names = append(names, st.Name)
			}
			return names, err
		},
		Conns: func(context.Context) (int, error) { return int(net.conns.Load()), nil },
		Requests: func(context.Context) (int64, error) {
			var n int
			for call := memorytest.Claim; call <= memorytest.Look; call++ {
				n += net.Calls(call)
			}
			return int64(n), nil
		},
	}
}
