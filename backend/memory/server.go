package memory

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockport/lockport/driver"
)

// Server keeps the locks that its clients, Backends with it in their Options, share. Its zero value is ready for use. All
// methods may be called concurrently. It starts no goroutines, and timers only while somebody waits.
type Server struct {
	mu     sync.Mutex
	names  map[string]*entry
	claims map[claimKey]*claim // those that are held or wait
	token  uint64              // the last one given: one counter for all names keeps nothing of names that are gone
	calls  []func()            // callbacks to run once mu is free
}

// NewServer returns a Server without locks.
func NewServer() *Server { return new(Server) }

// entry is a name that is held. A name that nobody holds has no entry: the end of a claim grants the next one under the same
// mutex, so that nobody can come between.
type entry struct {
	name   string
	holder *claim
	queue  list.List   // of *claim, the next one first
	timer  *time.Timer // grants the next one at the holder's expiry; armed while somebody waits
}

type claimKey struct{ name, owner string }

// enter makes the claim of req, or finds it if it is here already, and returns it. queue says that it is to wait if it is not
// granted at once; otherwise it is nil then. sent is when the request was sent.
func (s *Server) enter(ctx context.Context, b *Backend, req driver.Request, sent time.Time, queue bool) (*claim, error) {
	s.lock()
	defer s.unlock()
	// Looked at under the mutex: who finds its context ended and calls Abandon must not be granted the name afterwards.
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	now := time.Now()
	s.expire(s.names[req.Name], now)
	if c := s.claims[claimKey{req.Name, req.Owner}]; c != nil {
		c.req = req
		return c, nil
	}
	c := &claim{backend: b, req: req, granted: make(chan struct{})}
	e := s.names[req.Name]
	if e == nil {
		e = &entry{name: req.Name}
		s.add(c, e)
		s.grant(e, c, now, sent)
		return c, nil
	}
	if !queue {
		return nil, e.held(now)
	}
	s.add(c, e)
	c.place = e.queue.PushBack(c)
	if c.isForeignTo(e.holder) {
		s.later(e.holder.backend, e.holder.req.Contended)
	}
	if e.timer == nil {
		s.arm(e)
	}
	return c, nil
}

// held says until when e is held, as a waiter sees it.
func (e *entry) held(now time.Time) error {
	return &driver.HeldError{ExpiresIn: e.holder.expires.Sub(now), Holder: e.status()}
}

func (s *Server) add(c *claim, e *entry) {
	if s.names == nil {
		s.names, s.claims = make(map[string]*entry), make(map[claimKey]*claim)
	}
	s.names[e.name], s.claims[c.key()] = e, c
}

// grant makes c the holder. Its TTL runs from now, its validity from the time its request was sent.
func (s *Server) grant(e *entry, c *claim, now, sent time.Time) {
	s.token++
	e.holder, c.state = c, held
	c.since, c.expires = now, now.Add(c.req.TTL)
	c.grant = driver.Grant{Token: s.token, Until: sent.Add(c.req.TTL)}
	for p := e.queue.Front(); p != nil && !c.grant.Contended; p = p.Next() {
		c.grant.Contended = p.Value.(*claim).isForeignTo(c)
	}
	c.until = c.grant.Until
	s.arm(e)
	close(c.granted)
}

// end takes c, which is held or waits, off the name, and grants that to the next one if c held it. reason, if not nil, is
// what its holder is told.
func (s *Server) end(c *claim, reason error, now time.Time) {
	e := s.names[c.req.Name]
	delete(s.claims, c.key())
	c.state = over
	if reason != nil && c.req.Lost != nil {
		s.later(c.backend, func() { c.req.Lost(reason) })
	}
	if c != e.holder {
		e.queue.Remove(c.place)
		if e.queue.Len() == 0 {
			s.arm(e)
		}
		close(c.granted) // a Wait that its client has given up must not stay
		return
	}
	e.holder = nil
	next := e.queue.Front()
	if next == nil {
		s.arm(e)
		delete(s.names, e.name)
		return
	}
	e.queue.Remove(next)
	s.grant(e, next.Value.(*claim), now, now)
}

// expire ends the holder of e if its TTL has passed. e may be nil.
func (s *Server) expire(e *entry, now time.Time) {
	if e != nil && e.holder != nil && !now.Before(e.holder.expires) {
		s.end(e.holder, fmt.Errorf("%w: its TTL passed without a renewal", driver.ErrLost), now)
	}
}

// arm sets e's timer to the holder's expiry if somebody waits for that. A renewal leaves the timer: it then fires early and
// is armed again.
func (s *Server) arm(e *entry) {
	if e.timer != nil {
		e.timer.Stop()
		e.timer = nil
	}
	if e.holder == nil || e.queue.Len() == 0 {
		return
	}
	e.timer = time.AfterFunc(time.Until(e.holder.expires), func() {
		s.lock()
		defer s.unlock()
		s.expire(e, time.Now())
		s.arm(e)
	})
}

// later has f, a callback of b's client, called by unlock. f may be nil.
func (s *Server) later(b *Backend, f func()) {
	if f != nil {
		s.calls = append(s.calls, func() {
			if b.open.Err() == nil {
				f()
			}
		})
	}
}

func (s *Server) lock() { s.mu.Lock() }

// unlock frees the mutex and then runs the callbacks, which may take locks of the client's.
func (s *Server) unlock() {
	calls := s.calls
	s.calls = nil
	s.mu.Unlock()
	for _, f := range calls {
		f()
	}
}
