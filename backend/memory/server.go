package memory

import (
	"container/list"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockport/lockport/driver"
)

// Server keeps the locks that its clients, Backends with it in their Options, share. Its zero value is ready for use. All
// methods may be called concurrently. It starts no goroutines, and timers only while somebody waits.
type Server struct {
	mu     sync.Mutex
	names  map[entryKey]*entry
	claims map[claimKey]*claim // those that are held or wait
	token  uint64              // the last one given: one counter for all names keeps nothing of names that are gone
	calls  []func()            // callbacks to run once mu is free
}

// NewServer returns a Server without locks.
func NewServer() *Server { return new(Server) }

// entry is a name that is held, as a lock or by permits. A name that nobody holds has no entry: the end of a claim grants the next ones under the
// same mutex, so that nobody can come between.
type entry struct {
	entryKey
	holders []*claim    // one writer, or readers, or those who have a permit
	queue   list.List   // of *claim, the next one first
	timer   *time.Timer // grants the next one at the first holder's expiry; armed while somebody waits
}

type entryKey struct {
	name    string
	permits bool
}

func keyOf(req driver.Request) entryKey { return entryKey{req.Name, req.Permits > 0} }

type claimKey struct{ name, owner string }

// admits says whether req may hold the name beside those who do.
func (e *entry) admits(req driver.Request) bool {
	switch {
	case len(e.holders) == 0:
		return true
	case e.permits:
		return len(e.holders) < req.Permits
	}
	return req.Shared && e.holders[0].req.Shared
}

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
	e := s.entry(keyOf(req), now)
	if c := s.claims[claimKey{req.Name, req.Owner}]; c != nil {
		c.req = req
		return c, nil
	}
	if e == nil {
		e = &entry{entryKey: keyOf(req)}
	} else if n := e.holders[0].req.Permits; n != req.Permits {
		return nil, fmt.Errorf("%w: %w: the name has %d permits, not %d", driver.ErrRefused, driver.ErrInvalidOption, n, req.Permits)
	}
	c := &claim{backend: b, req: req, entry: e, granted: make(chan struct{})}
	if e.queue.Len() == 0 && e.admits(req) {
		s.add(c, e)
		s.grant(e, c, now, sent)
		return c, nil
	}
	if !queue {
		return nil, e.held(now)
	}
	s.add(c, e)
	c.place = e.queue.PushBack(c)
	for _, holder := range e.holders {
		if c.isForeignTo(holder) {
			s.later(holder.backend, holder.req.Contended)
		}
	}
	if e.timer == nil {
		s.arm(e)
	}
	return c, nil
}

// held says until when e is held, as a waiter sees it.
func (e *entry) held(now time.Time) error {
	return &driver.HeldError{ExpiresIn: e.firstExpiry().Sub(now), Holder: e.status()}
}

// firstExpiry is when the first of the holders ends if nothing is heard of it.
func (e *entry) firstExpiry() time.Time {
	first := e.holders[0].expires
	for _, holder := range e.holders[1:] {
		if holder.expires.Before(first) {
			first = holder.expires
		}
	}
	return first
}

func (s *Server) add(c *claim, e *entry) {
	if s.names == nil {
		s.names, s.claims = make(map[entryKey]*entry), make(map[claimKey]*claim)
	}
	s.names[e.entryKey], s.claims[c.key()] = e, c
}

// grant makes c a holder. Its TTL runs from now, its validity from the time its request was sent.
func (s *Server) grant(e *entry, c *claim, now, sent time.Time) {
	s.token++
	e.holders, c.state = append(e.holders, c), held
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
	e := c.entry
	delete(s.claims, c.key())
	c.state = over
	if reason != nil && c.req.Lost != nil {
		s.later(c.backend, func() { c.req.Lost(reason) })
	}
	if i := slices.Index(e.holders, c); i >= 0 {
		e.holders = slices.Delete(e.holders, i, i+1)
	} else {
		e.queue.Remove(c.place)
		close(c.granted) // a Wait that its client has given up must not stay
	}
	for next := e.queue.Front(); next != nil && e.admits(next.Value.(*claim).req); next = e.queue.Front() {
		e.queue.Remove(next)
		s.grant(e, next.Value.(*claim), now, now)
	}
	s.arm(e)
	if len(e.holders) == 0 {
		delete(s.names, e.entryKey)
	}
}

// entry returns the entry of key, without holders whose TTL has passed; nil: nobody holds it.
func (s *Server) entry(key entryKey, now time.Time) *entry {
	e := s.names[key]
	if e == nil {
		return nil
	}
	if s.expire(e, now); len(e.holders) == 0 {
		return nil
	}
	return e
}

// expire ends the holders of e whose TTL has passed.
func (s *Server) expire(e *entry, now time.Time) {
	for i := 0; i < len(e.holders); {
		if holder := e.holders[i]; now.Before(holder.expires) {
			i++
		} else {
			s.end(holder, fmt.Errorf("%w: its TTL passed without a renewal", driver.ErrLost), now)
		}
	}
}

// arm sets e's timer to the first holder's expiry if somebody waits for that. A renewal leaves the timer: it then fires early and
// is armed again.
func (s *Server) arm(e *entry) {
	if e.timer != nil {
		e.timer.Stop()
		e.timer = nil
	}
	if len(e.holders) == 0 || e.queue.Len() == 0 {
		return
	}
	e.timer = time.AfterFunc(time.Until(e.firstExpiry()), func() {
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
