package exhibits

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/backend/memory/memorytest"
	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
)

// lock is the sound lock in steps. An exhibit replaces steps.
type lock struct {
	sound  *memorytest.Backend
	net    *network
	shared *sync.Map // state of exhibits on one server
	hangUp func()    // closes the connection
	closed atomic.Bool

	as      driver.Backend // what the suite gets: the lock, or a wrapper
	state   func(*driver.Capabilities)
	request func(*driver.Request)
	claim   func(context.Context, driver.Request) (driver.Lease, error)
	wait    func(context.Context, driver.Request) (driver.Lease, error)
	grant   func(*lease)
	renew   func(context.Context, *lease) (time.Time, error) // nil: sound, in batches
	batch   func([]driver.Renewal)
	release func(context.Context, *lease) error
	detach  func(context.Context, driver.Lease) error
	attach  func(ctx context.Context, req driver.Request, owner string, token uint64) (driver.Lease, error)
	abandon func(context.Context, driver.Request) error
	inspect func(context.Context, string) (driver.Status, error)
	list    func(context.Context, string) ([]driver.Status, error)
	end     func(ctx context.Context, name, owner string) error
	check   func(context.Context) ([]driver.Notice, error)
}

// network is a path to the server, with its faults.
type network struct {
	memorytest.Faults
	conns atomic.Int64
}

func newLock(server *memory.Server, net *network, shared *sync.Map) *lock {
	b := memorytest.NewBackend(server, &net.Faults)
	net.conns.Add(1)
	l := &lock{
		sound: b, net: net, shared: shared, hangUp: sync.OnceFunc(func() { net.conns.Add(-1) }),
		state: func(*driver.Capabilities) {}, request: func(*driver.Request) {}, grant: func(*lease) {}, batch: func([]driver.Renewal) {},
		claim: b.TryAcquire, wait: b.Wait, abandon: b.Abandon, inspect: b.Inspect, list: b.List, end: b.Break, check: b.Check,
		detach: b.Detach, attach: b.Attach,
		release: func(ctx context.Context, l *lease) error { return l.Lease.Release(ctx) },
	}
	l.as = l
	return l
}

// take removes the holder of name at the server, past the network.
func (l *lock) take(name string) { l.sound.Server().LoseSilently(name) }

// A lock implements all that a memory.Backend does.

func (l *lock) Capabilities() driver.Capabilities {
	caps := l.sound.Capabilities()
	l.state(&caps)
	return caps
}

func (l *lock) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	l.request(&req)
	sound, err := l.claim(ctx, req)
	return l.granted(req, sound, err)
}

func (l *lock) Wait(ctx context.Context, req driver.Request) (driver.Lease, error) {
	l.request(&req)
	sound, err := l.wait(ctx, req)
	return l.granted(req, sound, err)
}

func (l *lock) Requeue(ctx context.Context, old driver.Lease, req driver.Request) (driver.Lease, error, error) {
	l.request(&req)
	sound, gone, err := l.sound.Requeue(ctx, old.(*lease).Lease, req)
	next, err := l.granted(req, sound, err)
	return next, gone, err
}

// granted wraps the lease that a step returned.
func (l *lock) granted(req driver.Request, sound driver.Lease, err error) (driver.Lease, error) {
	if err != nil {
		return nil, err
	}
	if _, ours := sound.(*lease); ours {
		return sound, nil
	}
	granted := &lease{Lease: sound, lock: l, req: req, grant: sound.Grant()}
	l.grant(granted)
	return granted, nil
}

func (l *lock) RenewBatch(ctx context.Context, leases []driver.Lease, results []driver.Renewal) {
	sound := make([]driver.Lease, len(leases))
	for i, one := range leases {
		sound[i] = one.(*lease).Lease
		if l.renew != nil {
			results[i].Until, results[i].Err = one.(*lease).Renew(ctx)
		}
	}
	if l.renew == nil {
		l.sound.RenewBatch(ctx, sound, results)
	}
	l.batch(results)
}

func (l *lock) Detach(ctx context.Context, held driver.Lease) error {
	return l.detach(ctx, held.(*lease).Lease)
}

func (l *lock) Attach(ctx context.Context, req driver.Request, owner string, token uint64) (driver.Lease, error) {
	l.request(&req)
	sound, err := l.attach(ctx, req, owner, token)
	return l.granted(req, sound, err)
}

func (l *lock) Abandon(ctx context.Context, req driver.Request) error {
	if l.closed.Load() {
		panic("exhibits: Abandon after Close")
	}
	l.request(&req)
	return l.abandon(ctx, req)
}

func (l *lock) Inspect(ctx context.Context, name string) (driver.Status, error) {
	return l.inspect(ctx, name)
}

func (l *lock) List(ctx context.Context, prefix string) ([]driver.Status, error) {
	return l.list(ctx, prefix)
}

func (l *lock) Break(ctx context.Context, name, owner string) error { return l.end(ctx, name, owner) }

func (l *lock) Check(ctx context.Context) ([]driver.Notice, error) { return l.check(ctx) }

func (l *lock) Close() error {
	l.closed.Store(true)
	l.hangUp()
	return l.sound.Close()
}

// lease is a lease of a lock.
type lease struct {
	driver.Lease // the sound one
	lock         *lock
	req          driver.Request
	grant        driver.Grant
}

func (l *lease) Grant() driver.Grant { return l.grant }

func (l *lease) Renew(ctx context.Context) (time.Time, error) {
	if l.lock.renew != nil {
		return l.lock.renew(ctx, l)
	}
	return l.soundly(ctx)
}

// soundly renews as the sound lock does.
func (l *lease) soundly(ctx context.Context) (time.Time, error) {
	return driver.Renew(ctx, l.lock.sound, l.Lease)
}

func (l *lease) Release(ctx context.Context) error { return l.lock.release(ctx, l) }

func isHeld(err error) bool { return errors.Is(err, driver.ErrHeld) }

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
			for call := memorytest.Look; call <= memorytest.Abandon; call++ {
				n += net.Calls(call)
			}
			return int64(n), nil
		},
	}
}
