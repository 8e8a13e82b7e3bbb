package redisclaims

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/redisscript"
)

// Options configure a Registry.
type Options struct {
	// Pipes are those of the servers to subscribe to, at most 64. The registry does not close them.
	Pipes []*redisscript.Pipe
	// Quorum is how many servers must call a claim, or report it broken, to take effect at once: 1 with one server.
	Quorum int
	// New makes the backend's claim for a request and sets its Req.
	New func(driver.Request) Member
}

// Registry has all pending, waiting and held claims, by owner. Safe for concurrent use.
type Registry struct {
	o       Options
	ctx     context.Context // ends when the registry is closed
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	members map[string]Member
	channel string // that it listens to; "": none yet
	heard   uint64 // bits of the servers whose messages arrive
}

// New makes a registry. It does no I/O before a claim waits or is held.
func New(o Options) *Registry {
	r := &Registry{o: o, members: make(map[string]Member)}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// Enter registers the claim of req before its first request. It returns an error if the claim is held.
func (r *Registry) Enter(req driver.Request) (Member, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.members[req.Owner]
	switch {
	case m != nil && m.Base().held:
		return nil, &driver.HeldError{Holder: driver.Status{Owner: req.Owner}}
	case m == nil, m.Base().Req.Name != req.Name, m.Base().Req.TTL != req.TTL:
		m = r.o.New(req)
		r.members[req.Owner] = m
	}
	c := m.Base()
	// Name, Owner and TTL keep their values: an abandoned request that is still to be written may read them.
	c.Req.Queue, c.Req.Lost, c.Req.Contended = req.Queue, req.Lost, req.Contended
	c.asked++
	c.asking, c.hinted, c.called = true, false, 0
	return m, nil
}

// Answered records the outcome of a request for m. queue: the request asked for a place in the queue.
func (r *Registry) Answered(m Member, queue bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := m.Base()
	c.queued = c.queued || queue
	switch {
	case err == nil:
		c.asking, c.queued, c.held = false, false, true
		r.listen(c.Req.Owner)
	case errors.Is(err, driver.ErrHeld), errors.Is(err, driver.ErrUnavailable), errors.Is(err, driver.ErrRefused):
		c.asking = false
		if !c.queued {
			r.retire(m)
		}
	}
}

// Unresolved returns the claim of req, or makes one. yes: a request of it may still arrive.
func (r *Registry) Unresolved(req driver.Request) (m Member, yes bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.members[req.Owner]; m != nil && m.Base().Req.Name == req.Name {
		return m, m.Base().asking
	}
	return r.o.New(req), true
}

// Leave forgets m.
func (r *Registry) Leave(m Member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.retire(m)
}

// retire is Leave. The mutex is held.
func (r *Registry) retire(m Member) {
	c := m.Base()
	c.wake = nil
	if r.members[c.Req.Owner] == m {
		delete(r.members, c.Req.Owner)
	}
}

// Len is the number of claims.
func (r *Registry) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.members)
}

// Notify implements driver.Notifier for the backends.
func (r *Registry) Notify(req driver.Request, wake func()) (stop func()) {
	r.mu.Lock()
	m := r.members[req.Owner]
	if m == nil {
		m = r.o.New(req)
		r.members[req.Owner] = m
	}
	c := m.Base()
	hinted := c.hinted
	c.hinted, c.wake = false, wake
	r.listen(req.Owner)
	r.mu.Unlock()
	if hinted {
		wake()
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		c.wake = nil
		if !c.asking && !c.queued && !c.held {
			r.retire(m)
		}
	}
}

// Close ends the subscriptions. go-redis may wait for a silent server, so Close waits for a second at most.
func (r *Registry) Close() {
	r.mu.Lock()
	r.cancel() // from now on nothing starts to listen
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = redisscript.Guard(ctx, func() error {
		r.running.Wait()
		return nil
	})
}

// handle handles a published message.
func (r *Registry) handle(server int, word string) {
	if word == "" {
		return
	}
	r.mu.Lock()
	var call func()
	if m := r.members[word[1:]]; m != nil {
		call = r.act(m, word[0], server)
	}
	r.mu.Unlock()
	if call != nil {
		call()
	}
}
