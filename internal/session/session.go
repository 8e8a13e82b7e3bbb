package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// session is one session at the server: dialing, live or ended. Its own goroutine (run) sends one request at a time, with everything that is
// queued, and otherwise listens. Guarded by Backend.mu.
type session struct {
	b      *Backend
	ctx    context.Context // ends when the session does
	cancel context.CancelFunc
	conn   Conn  // nil: being dialed
	endErr error // why it has ended on our side; nil: it has not

	queue      []*Op              // to be sent
	stopListen context.CancelFunc // nil: it is dialing, or a request is under way

	sent      time.Time // when the last request was sent
	confirmed time.Time // when the last answered request was sent

	claims map[*claim]struct{} // that live on it, or after its end may live on at the server
	ending *Op                 // an End of it under way
}

// settle ends op with its answer, or without one because of err. Caller holds mu.
func (op *Op) settle(err error) {
	if op.Err = cmp.Or(err, op.Err); !Classified(op.Err) {
		op.Err = unavailable(op.Err)
	}
	op.settled = true
	close(op.done)
	if op.onDone != nil {
		op.onDone(op)
	}
}

// open opens a session in the background, but not just after one failed to open: hundreds of waiters would dial without end. Caller holds mu.
func (b *Backend) open() *session {
	s := &session{b: b, claims: make(map[*claim]struct{})}
	s.ctx, s.cancel = context.WithCancel(b.ctx)
	label := b.label
	b.work.Add(1)
	time.AfterFunc(time.Until(b.failed.Add(redialPause)), func() { s.run(label) })
	return s
}

// run is the session's goroutine.
func (s *session) run(label string) {
	b := s.b
	defer b.work.Done()
	ctx, cancel := context.WithTimeout(s.ctx, MaxDial)
	conn, err := b.o.Dial(ctx, label, Events{Freed: b.freedElsewhere, Contended: b.contended})
	cancel()
	b.mu.Lock()
	if err != nil {
		b.failed = time.Now()
		s.end(err)
		b.unlock()
		return
	}
	s.conn, s.sent = conn, time.Now()
	if s == b.main {
		for _, w := range b.watches {
			s.register(w)
		}
	}
	for s.endErr == nil {
		if len(s.queue) == 0 {
			s.listen()
		} else {
			s.request()
		}
	}
	b.unlock()
	conn.Close()
}

// ask queues op, has it sent, and returns it. A Ping goes first: all locks depend on it. If one is still to be sent, that serves.
// Caller holds mu.
func (s *session) ask(op *Op, onDone func(*Op)) *Op {
	op.onDone, op.done = onDone, make(chan struct{})
	switch {
	case op.Kind != Ping:
		s.queue = append(s.queue, op)
	case len(s.queue) > 0 && s.queue[0].Kind == Ping:
		return s.queue[0]
	default:
		s.queue = slices.Insert(s.queue, 0, op)
	}
	if s.stopListen != nil {
		s.stopListen()
	}
	return op
}

// await waits until op is settled. false: ctx ended first. Called with mu held; waits without it.
func (b *Backend) await(ctx context.Context, op *Op) bool {
	b.unlock()
	select {
	case <-op.done:
	case <-ctx.Done():
	}
	b.mu.Lock()
	return op.settled
}

// alone reports whether a Conn carries op out by itself.
func (op *Op) alone() bool { return op.Kind >= Ping || len(op.Slots) > 0 }

// next takes from the queue what goes into the next request: an op that is carried out alone, or those that are not. Ops of the two sorts may change
// places: no answer depends on their order. A Ping is first in the queue, so it waits for the request under way at most. It goes alone: a Try that
// waits for its token would delay it.
func (s *session) next() (ops []*Op) {
	s.queue = slices.DeleteFunc(s.queue, func(op *Op) bool {
		taken := len(ops) == 0 || !ops[0].alone() && !op.alone() && len(ops) < MaxBatch
		if taken {
			ops = append(ops, op)
		}
		return taken
	})
	return ops
}

// request sends what is queued, or a part of it, as one request. Called with mu held; waits without it.
func (s *session) request() {
	ops := s.next()
	var err error
	if ops[0].waits {
		err = s.wait(ops[0])
	} else {
		err = s.do(ops)
	}
	if err != nil {
		s.end(err)
		err = unknown(s.endErr)
	} else if slices.ContainsFunc(ops, func(op *Op) bool { return errors.Is(op.Err, ErrReadOnly) }) {
		s.end(ErrReadOnly) // the next session may reach the new primary
	}
	for _, op := range ops {
		op.settle(err)
	}
}

// wait lets the connection wait for the key of op. The server keeps the session for the TTL after its answer, given at some time after the request
// was sent. So a short wait confirms the session as of its sending; after a longer one a Ping does. With Options.Beat it always does: the server may
// have become read-only meanwhile, and has not told. Called with mu held; waits without it.
func (s *session) wait(op *Op) error {
	s.sent = time.Now()
	s.b.unlock()
	err := s.conn.Wait(s.ctx, op)
	s.b.mu.Lock()
	if err != nil || op.Err != nil {
		return err
	}
	if s.b.o.Beat <= 0 && time.Since(s.sent) < s.b.o.TTL/4 {
		s.confirmed = s.sent
		return nil
	}
	ping := &Op{Kind: Ping}
	err = s.do([]*Op{ping})
	return cmp.Or(err, ping.Err)
}

// do lets the connection carry out ops. Called with mu held; waits without it.
func (s *session) do(ops []*Op) error {
	s.sent = time.Now()
	s.b.unlock()
	overdue := time.AfterFunc(s.b.o.TTL, s.overdue)
	defer overdue.Stop()
	err := s.conn.Do(s.ctx, ops)
	s.b.mu.Lock()
	if err == nil && slices.ContainsFunc(ops, func(op *Op) bool { return op.Err == nil }) {
		s.confirmed = s.sent
	}
	return err
}

// overdue ends a session whose answer does not arrive, and those that have waited for longer: the server may be gone, and another have taken its place.
func (s *session) overdue() {
	s.b.mu.Lock()
	defer s.b.unlock()
	silent := fmt.Errorf("the server has not answered for %v", s.b.o.TTL)
	s.end(silent)
	for _, w := range s.b.blockers {
		if w.conn != nil && w.stopListen == nil && !w.sent.After(s.sent) {
			w.end(silent)
		}
	}
}

// listen listens until there is something to ask, pings, or ends a session that nobody needs. Called with mu held; waits without it.
func (s *session) listen() {
	limit, silent := s.idleLimit(), time.Since(s.sent)
	switch {
	case silent < limit:
		limit -= silent
	case len(s.claims) == 0:
		s.end(errIdle)
		return
	case s.b.o.Beat > 0:
		s.ask(&Op{Kind: Ping}, nil)
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	s.stopListen = cancel
	s.b.unlock()
	err := s.conn.Listen(ctx)
	cancel()
	s.b.mu.Lock()
	s.stopListen = nil
	if err != nil {
		s.end(err)
	}
}

// idleLimit is how long nothing is asked of the session before it is pinged (Options.Beat), or ended if it has no claims. After the TTL the server
// ends it, perhaps just as it is used.
func (s *session) idleLimit() time.Duration {
	if beat := s.b.o.Beat; beat > 0 && len(s.claims) > 0 {
		return beat
	}
	return s.b.o.TTL - s.b.o.TTL/4
}

// until is the time before which the server keeps the session's locks.
func (s *session) until() time.Time { return s.confirmed.Add(s.b.o.TTL) }

// stale reports whether nothing is under way or queued, and the server may have ended the session or may be ending it now.
func (s *session) stale() bool {
	silent := time.Since(s.sent)
	return s.stopListen != nil && len(s.queue) == 0 && (silent >= s.b.o.TTL || silent >= s.idleLimit() && len(s.claims) == 0)
}

// end ends the session on our side, and all that lives on it. Calls under way settle when answered or failed. Caller holds mu.
func (s *session) end(cause error) {
	b := s.b
	if s.endErr != nil {
		return
	}
	s.endErr = cause
	s.cancel()
	if s == b.main {
		b.main = nil
		for _, w := range b.watches { // the waiters try again, which opens the next session
			w.on = nil
			b.wake(w)
		}
	}
	for _, op := range s.queue {
		op.settle(cause)
	}
	for c := range s.claims {
		if c.state != held {
			continue
		}
		b.orphan(c)
		if tell, reason := c.req.Lost, lost(cause); tell != nil {
			b.callbacks = append(b.callbacks, func() { tell(reason) })
		}
	}
}
