package redisclaims

import (
	"context"
	"errors"
	"sync"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/driver"
)

// Options configure a Registry.
type Options struct {
	// Servers are the servers to subscribe to, at most 64. The registry does not close them.
	Servers []goredis.UniversalClient
	// Quorum is how many servers must call a claim, or report it broken, to take effect at once: 1 with one server.
	Quorum int
	// New makes the backend's claim for a request and sets its Req.
	New func(driver.Request) Member
	// Contended asks a server whether anybody waits for the members' names, and calls their Request.Contended if so. ctx bounds it.
	Contended func(ctx context.Context, server int, members []Member)
}

// Registry has all pending, waiting and held claims, by owner. Safe for concurrent use.
type Registry struct {
	o         Options
	listeners []*listener
	ctx       context.Context
	cancel    context.CancelFunc

	mu      sync.Mutex
	members map[string]Member
}

// New makes a registry. It does no I/O before a claim waits or is held.
func New(o Options) *Registry {
	r := &Registry{o: o, members: make(map[string]Member)}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	for i, client := range o.Servers {
		r.listeners = append(r.listeners, &listener{r: r, server: i, client: client, clients: make(map[string]bool)})
	}
	return r
}

// Enter registers the claim of req before its first request.
func (r *Registry) Enter(req driver.Request) Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.members[req.Owner]
	if m == nil || m.Base().Req.Name != req.Name || m.Base().Req.TTL != req.TTL || m.Base().held {
		m = r.o.New(req)
		r.members[req.Owner] = m
	}
	c := m.Base()
	// Name, Owner and TTL keep their values: an abandoned request that is still to be written may read them.
	c.Req.Queue, c.Req.Lost, c.Req.Contended = req.Queue, req.Lost, req.Contended
	c.asked++
	c.asking, c.hinted, c.called = true, false, 0
	return m
}

// Holds reports whether owner's claim was granted and has not left.
func (r *Registry) Holds(owner string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.members[owner]
	return m != nil && m.Base().held
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
	r.mu.Unlock()
	if hinted {
		wake()
	}
	r.listen(req.Owner)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		c.wake = nil
		if !c.asking && !c.queued && !c.held {
			r.retire(m)
		}
	}
}

// listen subscribes for owner's client on all servers, in the background.
func (r *Registry) listen(owner string) {
	for _, l := range r.listeners {
		l.listen(clientOf(owner))
	}
}

// Heard reports whether messages for owner arrive from a quorum of the servers.
func (r *Registry) Heard(owner string) bool {
	n := 0
	for _, l := range r.listeners {
		if l.heard(clientOf(owner)) {
			n++
		}
	}
	return n >= r.o.Quorum
}

// Close ends the subscriptions.
func (r *Registry) Close() {
	r.cancel()
	var all sync.WaitGroup
	for _, l := range r.listeners {
		all.Go(l.close)
	}
	all.Wait()
}

// waitersOf returns the wake functions of client's waiting claims, or of all if client is "".
func (r *Registry) waitersOf(client string) (wake []func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.members {
		if c := m.Base(); c.wake != nil && (client == "" || clientOf(c.Req.Owner) == client) {
			wake = append(wake, c.wake)
		}
	}
	return wake
}

// holdersOf returns client's held claims that want to know whether anybody waits.
func (r *Registry) holdersOf(client string) (holders []Member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.members {
		c := m.Base()
		if c.held && c.Req.Contended != nil && clientOf(c.Req.Owner) == client {
			holders = append(holders, m)
		}
	}
	return holders
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
