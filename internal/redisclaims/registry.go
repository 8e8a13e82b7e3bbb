package redisclaims

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/redisscript"
)

// How often a waiter polls without being notified.
const (
	PollHeard   = 5 * time.Second        // subscribed: the safety net under notification
	PollUnheard = 250 * time.Millisecond // not subscribed yet, or not permitted to
	PollForeign = 100 * time.Millisecond // behind a foreign client, which announces no release
)

// TombstoneTTL is how long a server refuses an abandoned claim that may still arrive.
const TombstoneTTL = time.Minute

// Options configure a Registry of claims of type M.
type Options[M Member] struct {
	// Pipes are those of the servers to subscribe to, at most 64. The registry does not close them.
	Pipes []*redisscript.Pipe
	// Quorum is how many servers must call a claim, or report it broken, to take effect at once: 1 with one server.
	Quorum int
	// New makes the backend's claim for a request and sets its Req.
	New func(driver.Request) M
	// MinTTL is the smallest TTL of a claim.
	MinTTL time.Duration
}

// Registry has all pending, waiting and held claims, by owner. Safe for concurrent use. It calls wake and a Request's callbacks with its mutex
// held: they never block, and the client calls no driver while it holds the mutex that they lock.
type Registry[M Member] struct {
	o      Options[M]
	ctx    context.Context // ends when the registry is closed
	cancel context.CancelFunc

	mu      sync.Mutex
	members map[string]M
	channel string // that it listens to; "": none yet
	heard   uint64 // bits of the servers whose messages arrive
}

// New makes a registry. It does no I/O before a claim waits or is held.
func New[M Member](o Options[M]) *Registry[M] {
	r := &Registry[M]{o: o, members: make(map[string]M)}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// Enter registers the claim of req before its first request. It returns an error if the claim is held.
func (r *Registry[M]) Enter(req driver.Request) (m M, err error) {
	if req.TTL < r.o.MinTTL || req.TTL > driver.MaxTTL {
		return m, fmt.Errorf("%w: %w: the TTL %v is too small or too large", driver.ErrRefused, driver.ErrInvalidOption, req.TTL)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	m, known := r.members[req.Owner]
	switch {
	case !known:
		m = r.o.New(req)
		r.members[req.Owner] = m
	case m.Base().held:
		return m, &driver.HeldError{Holder: driver.Status{Owner: req.Owner}}
	}
	c := m.Base()
	// Name, Owner and TTL keep their values: an abandoned request that is still to be written may read them.
	c.Req.Queue, c.Req.Lost, c.Req.Contended = req.Queue, req.Lost, req.Contended
	c.asked++
	c.asking, c.missed, c.called = true, false, 0
	return m, nil
}

// Answered records the outcome of a request for m. queue: the request asked for a place in the queue, so another one or Abandon follows.
func (r *Registry[M]) Answered(m M, queue bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := m.Base()
	noEffect := errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrRefused)
	c.queued = c.queued || queue && !noEffect
	switch {
	case err == nil:
		c.asking, c.queued, c.held = false, false, true
		r.listen(c.Req.Owner)
		r.breakHeld(c)
	case noEffect, errors.Is(err, driver.ErrHeld):
		c.asking = false
		if !queue && !c.queued {
			delete(r.members, c.Req.Owner)
		}
	}
}

// Find returns the claim of req, or makes one. unresolved: a request of it may still arrive. void: no server has, or may get, anything of it, since
// all its requests failed without effect.
func (r *Registry[M]) Find(req driver.Request) (m M, unresolved, void bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, known := r.members[req.Owner]
	if !known {
		return r.o.New(req), true, false
	}
	c := m.Base()
	return m, c.asking, !c.asking && !c.queued && !c.held
}

// Leave forgets m.
func (r *Registry[M]) Leave(m M) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.members, m.Base().Req.Owner)
}

// Notify implements driver.Notifier for the backends.
func (r *Registry[M]) Notify(req driver.Request, wake func()) (stop func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listen(req.Owner)
	m, known := r.members[req.Owner]
	if !known { // it is in no queue, so nothing can call it
		return func() {}
	}
	c := m.Base()
	if c.missed {
		wake()
	}
	c.missed, c.wake = false, wake
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		c.wake = nil
	}
}

// Close ends the subscriptions, without waiting: go-redis may wait for a silent server.
func (r *Registry[M]) Close() { r.cancel() }
