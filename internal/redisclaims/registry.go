package redisclaims

import (
	"context"
	"errors"
	"sync"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/driver"
)

// Options say what a Registry is for.
type Options struct {
	// Servers are those that are listened to, at most 64. The registry does not close them.
	Servers []goredis.UniversalClient
	// Quorum is how many servers must call a claim, or tell it that it was broken, for that to count at once: 1 with one server.
	Quorum int
	// New makes the backend's claim of a request, with its Req.
	New func(driver.Request) Member
	// Contended asks a server whether somebody waits for what members hold, and calls their Request.Contended if so. ctx bounds it.
	Contended func(ctx context.Context, server int, members []Member)
}

// Registry is all claims that are being made, wait, or are held, by owner. Safe for concurrent use.
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

// Enter registers the claim of req, which is about to be asked for.
func (r *Registry) Enter(req driver.Request) Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.members[req.Owner]
	if m == nil || m.Base().Req.Name != req.Name || m.Base().Req.TTL != req.TTL || m.Base().held {
		m = r.o.New(req)
		r.members[req.Owner] = m
	}
	c := m.Base()
	// Name, owner and TTL are what they were: an earlier request, which was given up, may be about to be written.
	c.Req.Queue, c.Req.Lost, c.Req.Contended = req.Queue, req.Lost, req.Contended
	c.asked++
	c.asking, c.hinted, c.called = true, false, 0
	return m
}

// Holds says whether owner was granted its claim, and has not left.
func (r *Registry) Holds(owner string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.members[owner]
	return m != nil && m.Base().held
}

// Answered notes the outcome of a request for m, which asked for a place in the queue or did not.
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

// Unresolved finds the claim of req, or makes one. yes: a request for it may still be on its way.
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

// Len is how many claims there are.
func (r *Registry) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.members)
}

// Notify is driver.Notifier's.
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

// listen begins to listen, in the background, for what the servers have to tell owner's client.
func (r *Registry) listen(owner string) {
	for _, l := range r.listeners {
		l.listen(clientOf(owner))
	}
}

// Heard says whether what the servers have to tell owner arrives, from a quorum of them.
func (r *Registry) Heard(owner string) bool {
	n := 0
	for _, l := range r.listeners {
		if l.heard(clientOf(owner)) {
			n++
		}
	}
	return n >= r.o.Quorum
}

// Close ends the listening.
func (r *Registry) Close() {
	r.cancel()
	var all sync.WaitGroup
	for _, l := range r.listeners {
		all.Go(l.close)
	}
	all.Wait()
}

// waitersOf are the wake functions of the claims that wait, of one client or, for "", of all.
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

// holdersOf are claims that client holds and that want to know whether somebody waits.
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

// told passes on what a server published.
func (r *Registry) told(server int, word string) {
	if word == "" {
		return
	}
	r.mu.Lock()
	var call func()
	if m := r.members[word[1:]]; m != nil {
		call = r.toldOf(m, word[0], server)
	}
	r.mu.Unlock()
	if call != nil {
		call()
	}
}
