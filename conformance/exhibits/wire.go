package exhibits

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
)

// Direct is the target of a backend that no fault of the Wire touches.
const Direct = "direct"

// Wire lies between the backends that Open makes and a memory.Server, as a network does, and can be broken. All methods
// may be called concurrently.
type Wire struct {
	server *memory.Server

	// arrival is held from when a request is looked at until it has had its effect: what was sent first arrives first, so that an Abandon never overtakes
	// the claim that it undoes. It is taken before mu.
	arrival sync.Mutex

	mu       sync.Mutex
	backends map[*Backend]struct{} // those that are open and not direct
	changed  chan struct{}         // closed when a fault begins or ends
	cuts     chan struct{}         // closed by Cut and Sever
	severed  bool
	frozen   bool
	delay    time.Duration
	drops    []trap
	after    []trap
	requests int64
	held     []func() // what arrives when the silence ends, in order

	shared sync.Map         // of leases by name, for exhibits
	lanes  map[string]*Wire // other wires to the same server, by their targets
}

// trap is a fault that happens once.
type trap struct {
	op   conformance.Op
	left int
	done chan struct{}
}

// NewWire makes a wire to a server of its own.
func NewWire() *Wire {
	return &Wire{
		server:   memory.NewServer(),
		backends: make(map[*Backend]struct{}),
		changed:  make(chan struct{}),
		cuts:     make(chan struct{}),
	}
}

// Open makes a backend at this end of the wire, or, for the target Direct, at its other end. Other targets are those of the Lanes of Config.
func (w *Wire) Open(ctx context.Context, target string) (driver.Backend, error) {
	if lane := w.lanes[target]; lane != nil {
		return lane.Open(ctx, target)
	}
	b := &Backend{wire: w, inner: memory.NewBackend(memory.Options{Server: w.server}), direct: target == Direct}
	if !b.direct {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.backends[b] = struct{}{}
	}
	return b, nil
}

// OpenPlain is Open for a backend that has none of the optional interfaces, and whose waiters poll.
func (w *Wire) OpenPlain(ctx context.Context, target string) (driver.Backend, error) {
	b, err := w.Open(ctx, target)
	if err != nil {
		return nil, err
	}
	return plain{states(b, func(c *driver.Capabilities) {
		c.Wake, c.Poll, c.Fair, c.Queue, c.Contended = driver.WakePoll, 50*time.Millisecond, driver.FairNone, false, false
	})}, nil
}

// OpenUntold is Open for a backend whose server tells nobody that it has ended a claim: holders learn it from their renewals, in batches.
func (w *Wire) OpenUntold(ctx context.Context, target string) (driver.Backend, error) {
	b, err := w.Open(ctx, target)
	if err != nil {
		return nil, err
	}
	b.(*Backend).untold = true
	return states(b, func(c *driver.Capabilities) {
		c.RemovalNotice = func(ttl time.Duration) time.Duration { return ttl }
	}), nil
}

// Config is the suite's for a backend that open makes.
func (w *Wire) Config(open func(context.Context, string) (driver.Backend, error)) conformance.Config {
	const url = "wire://user:hunter2@localhost" // no error may show its password
	cfg := conformance.Config{Open: open, Target: url, Direct: Direct, Local: true, Faults: w.Faults()}
	w.lanes = make(map[string]*Wire)
	for _, target := range []string{url + "/1", url + "/2", url + "/3", url + "/4"} {
		lane := NewWire()
		lane.server = w.server
		w.lanes[target] = lane
		cfg.Lanes = append(cfg.Lanes, conformance.Lane{Target: target, Faults: lane.Faults()})
	}
	return cfg
}

// Faults are those of the wire.
func (w *Wire) Faults() conformance.Faults {
	return conformance.Faults{
		Restore: w.restore,
		Sever:   func(context.Context) error { w.set(func() { w.severed = true; w.cutNow() }); return nil },
		Cut:     func(context.Context) error { w.set(w.cutNow); return nil },
		Freeze:  func(context.Context) error { w.set(func() { w.frozen = true }); return nil },
		Delay:   func(_ context.Context, d time.Duration) error { w.set(func() { w.delay = d }); return nil },
		DropReply: func(_ context.Context, op conformance.Op) (<-chan struct{}, error) {
			t := trap{op: op, left: 1, done: make(chan struct{})}
			w.set(func() { w.drops = append(w.drops, t) })
			return t.done, nil
		},
		CutAfter: func(_ context.Context, n int) (<-chan struct{}, error) {
			t := trap{left: n, done: make(chan struct{})}
			w.set(func() { w.after = append(w.after, t) })
			return t.done, nil
		},
		Remove: func(_ context.Context, name string) error { w.server.Lose(name, nil); return nil },
		Overwrite: func(ctx context.Context, name string) error {
			foreign := memory.NewBackend(memory.Options{Server: w.server})
			for {
				w.server.Lose(name, nil)
				_, err := foreign.TryAcquire(ctx, driver.Request{Name: name, Owner: "somebody", TTL: time.Hour})
				if !isHeld(err) { // else somebody who waits was quicker
					return err
				}
			}
		},
		Leftovers: func(ctx context.Context, prefix string) ([]string, error) {
			all, err := memory.NewBackend(memory.Options{Server: w.server}).List(ctx, prefix)
			var names []string
			for _, st := range all {
				names = append(names, st.Name)
			}
			return names, err
		},
		Conns: func(context.Context) (int, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return len(w.backends), nil
		},
		Requests: func(context.Context) (int64, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.requests, nil
		},
	}
}

// set changes what is broken.
func (w *Wire) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
	close(w.changed)
	w.changed = make(chan struct{})
}

// cutNow ends what is under way. The mutex is held.
func (w *Wire) cutNow() {
	close(w.cuts)
	w.cuts = make(chan struct{})
	w.held = nil
}

// restore ends every fault. What was sent during a silence arrives now, before anything else does.
func (w *Wire) restore() {
	w.set(func() {
		for len(w.held) > 0 {
			held := w.held
			w.held = nil
			w.mu.Unlock()
			for _, f := range held {
				f()
			}
			w.mu.Lock()
		}
		w.severed, w.frozen, w.delay, w.drops, w.after = false, false, 0, nil, nil
	})
}

var (
	errGone = errors.New("nobody listens there")
	errCut  = errors.New("the connection was closed")
)

// send carries a request for effect to the server and its reply back.
func (w *Wire) send(ctx context.Context, op conformance.Op, effect func()) error {
	w.arrival.Lock()
	arrive := sync.OnceFunc(w.arrival.Unlock)
	defer arrive()
	w.mu.Lock()
	w.requests++
	if err := ctx.Err(); err != nil {
		w.mu.Unlock()
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	if w.severed {
		w.mu.Unlock()
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, errGone)
	}
	cuts := w.cuts
	if w.frozen {
		arrived := make(chan struct{})
		w.held = append(w.held, func() { effect(); close(arrived) })
		w.mu.Unlock()
		arrive()
		select {
		case <-arrived:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", driver.ErrUnknown, ctx.Err())
		case <-cuts:
			return fmt.Errorf("%w: %w", driver.ErrUnknown, errCut)
		}
	}
	lost := w.sprung(op)
	delay := w.delay
	w.mu.Unlock()

	effect()
	arrive()
	if lost {
		return fmt.Errorf("%w: %w", driver.ErrUnknown, errCut)
	}
	return w.back(ctx, cuts, delay)
}

// back carries a reply, with the delay that was when its request was sent.
func (w *Wire) back(ctx context.Context, cuts <-chan struct{}, delay time.Duration) error {
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", driver.ErrUnknown, ctx.Err())
		case <-cuts:
			return fmt.Errorf("%w: %w", driver.ErrUnknown, errCut)
		}
	}
	for {
		w.mu.Lock()
		frozen, changed := w.frozen, w.changed
		w.mu.Unlock()
		if !frozen {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", driver.ErrUnknown, ctx.Err())
		case <-cuts:
			return fmt.Errorf("%w: %w", driver.ErrUnknown, errCut)
		}
	}
}

// sprung says whether the reply to a request of this kind is to be lost. The mutex is held.
func (w *Wire) sprung(op conformance.Op) (lost bool) {
	for i, t := range w.drops {
		if t.op == op || t.op == conformance.OpAny {
			w.drops = slices.Delete(w.drops, i, i+1)
			close(t.done)
			return true
		}
	}
	for i := range w.after {
		if w.after[i].left--; w.after[i].left == 0 {
			close(w.after[i].done)
			w.after = slices.Delete(w.after, i, i+1)
			w.cutNow()
			return true
		}
	}
	return false
}

// deliver runs a callback from the server, when and if it can come through.
func (w *Wire) deliver(f func()) {
	w.mu.Lock()
	severed, frozen := w.severed, w.frozen
	if frozen && !severed {
		w.held = append(w.held, f)
	}
	w.mu.Unlock()
	if !severed && !frozen {
		f()
	}
}

// leases is a place in which broken backends share leases by name, as if their server did what they do.
func (w *Wire) leases() *sync.Map { return &w.shared }
