package memory

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockport/lockport/driver"
)

// Server keeps the locks of its clients, the Backends with it in their Options. Its zero value is ready for use. All methods may be called
// concurrently. It starts no goroutines, and timers only while a claim waits.
type Server struct {
	mu        sync.Mutex
	names     map[string]*entry // by key
	token     uint64            // the last one; one counter for all names, so that free names cost nothing
	callbacks []func()          // to run once mu is unlocked
}

// NewServer returns a Server without locks.
func NewServer() *Server { return new(Server) }

// entry is a held name, as a lock or by permits. A free name has no entry: the end of a claim grants the next ones under the same mutex, so nothing
// comes between.
type entry struct {
	key    string
	claims []*claim    // in the order of grants: the holders, then those that wait
	held   int         // the number of holders: one writer, or readers, or permit holders
	timer  *time.Timer // ends the first holder to expire, while a claim waits
}

func (e *entry) holders() []*claim { return e.claims[:e.held] }
func (e *entry) queue() []*claim   { return e.claims[e.held:] }

// keyOf is the key of a name's lock, or of its permits. No name begins with that byte: names are UTF-8.
func keyOf(name string, permits bool) string {
	if permits {
		return "\xff" + name
	}
	return name
}

// admits reports whether req may hold the name beside its holders.
func (e *entry) admits(req driver.Request) bool {
	switch {
	case e.held == 0:
		return true
	case req.Permits > 0:
		return e.held < req.Permits
	}
	return req.Shared && e.claims[0].req.Shared
}

// enter makes the claim of req, sent at sent, or finds it. If it is not granted at once, it queues if wait is set; otherwise enter returns ErrHeld.
func (s *Server) enter(b *Backend, req driver.Request, wait bool, sent, now time.Time) (*claim, error) {
	e := s.entry(keyOf(req.Name, req.Permits > 0), now)
	if c := e.find(req.Owner); c != nil {
		return c, nil
	}
	c := &claim{backend: b, req: req, entry: e}
	switch {
	case e.held > 0 && e.claims[0].req.Permits != req.Permits:
		return nil, driver.OtherPermits(e.claims[0].req.Permits, req.Permits)
	case e.held == len(e.claims) && e.admits(req): // granted at once
	case !wait:
		return nil, e.heldError(now)
	default:
		c.waits = make(chan struct{})
		for _, holder := range e.holders() {
			if c.isForeignTo(holder) {
				s.callback(holder.backend, holder.req.Contended)
			}
		}
	}
	if s.names == nil {
		s.names = make(map[string]*entry)
	}
	s.names[e.key] = e
	e.claims = append(e.claims, c)
	s.grant(e, sent, now)
	return c, nil
}

// find returns the claim of owner, or nil.
func (e *entry) find(owner string) *claim {
	for _, c := range e.claims {
		if c.req.Owner == owner {
			return c
		}
	}
	return nil
}

// heldError returns ErrHeld, with the first expiry of a holder.
func (e *entry) heldError(now time.Time) error {
	return &driver.HeldError{ExpiresIn: e.first().expires.Sub(now), Holder: e.status()}
}

// first is the holder that expires first unless renewed.
func (e *entry) first() *claim {
	return slices.MinFunc(e.holders(), func(a, b *claim) int { return a.expires.Compare(b.expires) })
}

// grant grants e's name to the next claims, as far as it admits them. Their TTL runs from now, their validity from sent.
func (s *Server) grant(e *entry, sent, now time.Time) {
	for e.held < len(e.claims) && e.admits(e.claims[e.held].req) {
		c := e.claims[e.held]
		e.held++
		s.token++
		c.since, c.expires = now, now.Add(c.req.TTL)
		c.grant = driver.Grant{Token: s.token, Until: sent.Add(c.req.TTL), Contended: slices.ContainsFunc(e.queue(), c.isForeignTo)}
		if c.waits != nil {
			close(c.waits)
		}
	}
	s.arm(e)
}

// end removes c, held or waiting, from the name, and grants the name to the next claims if c held it. reason, if not nil, is told to its client.
func (s *Server) end(c *claim, reason error, now time.Time) {
	e := c.entry
	if reason != nil && c.req.Lost != nil {
		s.callback(c.backend, func() { c.req.Lost(reason) })
	}
	if c.isHeld() {
		e.held--
	}
	e.claims = slices.DeleteFunc(e.claims, func(other *claim) bool { return other == c })
	if s.grant(e, now, now); e.held == 0 {
		delete(s.names, e.key)
	}
}

// entry returns the entry of key after ending expired holders, or a new one if nobody holds it.
func (s *Server) entry(key string, now time.Time) *entry {
	if e := s.names[key]; e != nil {
		if s.expire(e, now); e.held > 0 {
			return e
		}
	}
	return &entry{key: key}
}

// expire ends the holders of e whose TTL has passed.
func (s *Server) expire(e *entry, now time.Time) {
	for e.held > 0 {
		first := e.first()
		if now.Before(first.expires) {
			return
		}
		s.end(first, fmt.Errorf("%w: its TTL passed without a renewal", driver.ErrLost), now)
	}
}

// arm sets e's timer to the first holder's expiry if a claim waits. A renewal does not change the timer: it fires early and is armed again.
func (s *Server) arm(e *entry) {
	if e.timer != nil {
		e.timer.Stop()
	}
	if len(e.queue()) > 0 {
		e.timer = time.AfterFunc(time.Until(e.first().expires), func() {
			s.mu.Lock()
			defer s.unlock()
			s.expire(e, time.Now())
			s.arm(e)
		})
	}
}

// callback has unlock call f, a callback of b's client, if it is not nil.
func (s *Server) callback(b *Backend, f func()) {
	if f != nil && !b.closed {
		s.callbacks = append(s.callbacks, func() { b.network.Tell(f) })
	}
}

// unlock frees the mutex, then runs the callbacks: they may take the client's locks.
func (s *Server) unlock() {
	calls := s.callbacks
	s.callbacks = nil
	s.mu.Unlock()
	for _, f := range calls {
		f()
	}
}
