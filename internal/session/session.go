package session

import (
	"context"
	"time"
)

// session is one session at the server: being dialled, live, or ended. Guarded by Backend.mu.
type session struct {
	b       *Backend
	blocker bool          // not the main one: one claim at a time, which may wait
	conn    Conn          // nil: being dialled
	silence time.Duration // of conn
	over    error         // why it has ended for us; nil: it has not
	timer   *time.Timer   // closes it when it is idle

	queue    []*call // to be sent
	leaves   []Key   // to be left with the next request
	flushing bool    // a timer will send leaves if nothing else does

	busy     bool        // a request is under way, or somebody was told to make the next
	batch    []*call     // the calls of the request under way
	ops      []*Op       // the same
	done     func(error) // answered, once for all requests
	returned bool        // the request's Do has returned
	answered bool        // its done was called

	sent      time.Time // when the last request was sent
	confirmed time.Time // when the last request that was answered was sent

	claims claims // that live on it; once it has ended: that may live on at the server
	burial *call  // an End of it that is asked for
	buried bool   // it has ended at the server too
}

// begin opens a session in the background. mu is held.
func (b *Backend) begin(blocker bool) *session {
	s := &session{b: b, blocker: blocker}
	s.done = s.finish
	b.work.Add(1)
	go s.dial(b.label)
	return s
}

// dial opens the connection and sends what has been asked for meanwhile.
func (s *session) dial(label string) {
	b := s.b
	defer b.work.Done()
	ctx, cancel := context.WithTimeout(b.ctx, min(maxDial, b.o.TTL))
	defer cancel()
	conn, err := b.server.Dial(ctx, label, Events{Freed: b.freedElsewhere, Contended: b.contended, Ended: s.ended})
	b.mu.Lock()
	defer b.unlock()
	if err != nil {
		s.end(err)
		return
	}
	s.conn = conn
	if s.over != nil { // meanwhile
		b.later = append(b.later, conn.Close)
		return
	}
	s.silence = conn.Silence()
	s.sent = time.Now()
	if s.silence > 0 {
		s.timer = time.AfterFunc(s.patience(), s.rest)
	}
	if s == b.main {
		for _, w := range b.watches {
			s.listen(w)
		}
	}
	s.next()
}

// patience is for how long a session without claims may be idle: after silence the server ends it, perhaps just as it is used.
func (s *session) patience() time.Duration { return s.silence - s.silence/4 }

// until is the instant before which the server keeps what the session has.
func (s *session) until() time.Time {
	if s.silence <= 0 || s.confirmed.IsZero() {
		return time.Time{}
	}
	return s.confirmed.Add(s.silence)
}

// idle says that nothing is asked and nothing is to be asked.
func (s *session) idle() bool { return !s.busy && len(s.queue) == 0 }

// stale says that the server may have ended the session, or may just be doing so.
func (s *session) stale() bool {
	if s.conn == nil || s.silence <= 0 || !s.idle() {
		return false
	}
	silent := time.Since(s.sent)
	return silent >= s.silence || silent >= s.patience() && s.claims.first == nil
}

// rest closes a session that nobody needs.
func (s *session) rest() {
	s.b.mu.Lock()
	defer s.b.unlock()
	switch silent := time.Since(s.sent); {
	case s.over != nil:
	case s.claims.first == nil && s.idle() && silent >= s.patience():
		s.end(errIdle)
	case s.claims.first == nil && s.idle():
		s.timer.Reset(s.patience() - silent)
	default:
		s.timer.Reset(s.patience())
	}
}

// ended is Events.Ended.
func (s *session) ended(cause error) {
	s.b.mu.Lock()
	defer s.b.unlock()
	s.end(cause)
}

// end ends the session for us, with all that lives on it. What is under way is known only when it is answered, or has failed. mu is held.
func (s *session) end(cause error) {
	b := s.b
	if s.over != nil {
		return
	}
	s.over = cause
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.conn != nil {
		b.later = append(b.later, s.conn.Close)
	}
	if s == b.main {
		b.main = nil
		for _, w := range b.watches { // whom nobody tells any more: they look again, which opens the next session
			w.on = nil
			b.wake(w)
		}
	}
	queue := s.queue
	s.queue, s.leaves = nil, nil
	for _, k := range queue {
		k.lead = false
		s.settle(k, unsent(cause), false)
	}
	reason := lost(cause)
	for c := s.claims.first; c != nil; {
		next := c.next
		if c.state == held {
			b.bereave(c)
			if tell := c.req.Lost; tell != nil && c.granted {
				b.later = append(b.later, func() { tell(reason) })
			}
		}
		c = next
	}
	b.prune()
}
