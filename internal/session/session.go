package session

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// session is one session at the server: being dialled, live, or ended. A goroutine of its own (run) makes its requests one after the other, each for all
// that is queued, and listens while nothing is. Guarded by Backend.mu.
type session struct {
	b      *Backend
	ctx    context.Context // ends when the session does
	cancel context.CancelFunc
	conn   Conn  // nil: being dialled
	over   error // why it has ended for us; nil: it has not

	queue []*call            // to be sent
	busy  bool               // a request is under way
	rouse context.CancelFunc // ends Listen; nil: it does not

	sent      time.Time // when the last request was sent
	confirmed time.Time // when the last request that was answered was sent

	claims map[*claim]struct{} // that live on it; once it has ended: that may live on at the server
	burial *call               // an End of it that is asked for
	buried bool                // it has ended at the server too
}

// call is an Op on its way through a session. Guarded by Backend.mu, save over.
type call struct {
	op    *Op
	waits bool          // by Conn.Wait
	sent  bool          // it may have had an effect
	err   error         // nothing is known of the answer; of a class of package driver, which says whether it was sent
	then  func()        // if not nil: draws the conclusions when it was answered or has failed
	over  chan struct{} // closed when it was answered or has failed, or was taken back
}

// settled says that it was answered or has failed.
func (k *call) settled() bool {
	select {
	case <-k.over:
		return true
	default:
		return false
	}
}

// settle draws the conclusions from the answer, or from err: that there is none. mu is held.
func (k *call) settle(err error) {
	k.err = err
	if err == nil && k.op.Err != nil && classOf(k.op.Err) == nil {
		k.op.Err = unavailable(k.op.Err)
	}
	close(k.over)
	if k.then != nil {
		k.then()
	}
}

// begin opens a session in the background. mu is held.
func (b *Backend) begin() *session {
	s := &session{b: b, claims: make(map[*claim]struct{})}
	s.ctx, s.cancel = context.WithCancel(b.ctx)
	b.work.Add(1)
	go s.run(b.label)
	return s
}

// run is the session's goroutine.
func (s *session) run(label string) {
	b := s.b
	defer b.work.Done()
	defer s.cancel()
	ctx, cancel := context.WithTimeout(s.ctx, min(maxDial, b.o.TTL))
	conn, err := b.server.Dial(ctx, label, Events{Freed: b.freedElsewhere, Contended: b.contended})
	cancel()
	b.mu.Lock()
	if err != nil {
		s.end(err)
		b.unlock()
		return
	}
	s.conn, s.sent = conn, time.Now()
	if s == b.main {
		for _, w := range b.watches {
			s.listen(w)
		}
	}
	for s.over == nil {
		if s.idle() {
			s.rest()
		} else {
			s.request()
		}
	}
	b.unlock()
	conn.Close()
}

// ask queues op, and has it sent. mu is held.
func (s *session) ask(op *Op, then func()) *call {
	k := &call{op: op, then: then, over: make(chan struct{})}
	s.queue = append(s.queue, k)
	if s.rouse != nil {
		s.rouse()
	}
	return k
}

// await waits until k is settled. false: ctx has ended before. mu is held, but not meanwhile.
func (b *Backend) await(ctx context.Context, k *call) bool {
	b.unlock()
	select {
	case <-k.over:
	case <-ctx.Done():
	}
	b.mu.Lock()
	return k.settled()
}

// withdraw takes back a call that was not sent: it certainly has no effect. false: it was sent, or is settled. mu is held.
func (s *session) withdraw(k *call) bool {
	if k.sent || k.settled() {
		return false
	}
	s.queue = slices.DeleteFunc(s.queue, func(q *call) bool { return q == k })
	close(k.over)
	return true
}

// request makes one request for what is queued. mu is held, but not meanwhile.
func (s *session) request() {
	b := s.b
	n := min(len(s.queue), MaxBatch)
	calls := slices.Clone(s.queue[:n])
	s.queue = slices.Delete(s.queue, 0, n)
	ops := make([]*Op, len(calls))
	for i, k := range calls {
		k.sent = true
		ops[i] = k.op
	}
	s.busy = true
	var err error
	if calls[0].waits { // alone: nothing else is asked of a session without a claim
		err = s.wait(ops[0])
	} else {
		err = s.do(ops)
	}
	s.busy = false
	if err != nil {
		s.end(err)
		err = unknown(s.over)
	}
	for _, k := range calls {
		k.settle(err)
	}
	if s.over != nil {
		b.prune()
	}
}

// wait has the connection wait for the key of op. The server keeps the session for the TTL after its answer, which came at some instant since the request
// was sent. So a short wait confirms the session as of its sending; after a longer one a Ping does. mu is held, but not meanwhile.
func (s *session) wait(op *Op) error {
	s.sent = time.Now()
	s.b.unlock()
	err := s.conn.Wait(s.ctx, op)
	s.b.mu.Lock()
	if err != nil || op.Err != nil || s.over != nil {
		return err
	}
	if time.Since(s.sent) < s.b.o.TTL/4 {
		s.confirmed = s.sent
		return nil
	}
	ping := &Op{Kind: Ping}
	if err := s.do([]*Op{ping}); err != nil {
		return err
	}
	return ping.Err
}

// do has the connection carry out ops. mu is held, but not meanwhile.
func (s *session) do(ops []*Op) error {
	s.sent = time.Now()
	s.b.unlock()
	overdue := time.AfterFunc(s.b.o.TTL, s.overdue)
	defer overdue.Stop()
	err := s.conn.Do(s.ctx, ops)
	s.b.mu.Lock()
	if err == nil && slices.ContainsFunc(ops, (*Op).confirms) {
		s.confirmed = s.sent
	}
	return err
}

// overdue ends a session whose answer does not come.
func (s *session) overdue() {
	s.b.mu.Lock()
	defer s.b.unlock()
	s.end(fmt.Errorf("the server has not answered for %v", s.b.o.TTL))
}

// rest listens until there is something to ask, asks for a sign of life, or ends a session that nobody needs. mu is held, but not meanwhile.
func (s *session) rest() {
	limit, silent := s.patience(), time.Since(s.sent)
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
	s.rouse = cancel
	s.b.unlock()
	err := s.conn.Listen(ctx)
	cancel()
	s.b.mu.Lock()
	s.rouse = nil
	if err != nil {
		s.end(err)
	}
}

// patience is for how long nothing is asked of the session before it is asked for a sign of life, or ended if it has no claims: after the TTL the server
// ends it, perhaps just as it is used.
func (s *session) patience() time.Duration {
	if beat := s.b.o.Beat; beat > 0 && len(s.claims) > 0 {
		return beat
	}
	return s.b.o.TTL - s.b.o.TTL/4
}

// until is the instant before which the server keeps what the session has.
func (s *session) until() time.Time { return s.confirmed.Add(s.b.o.TTL) }

// idle says that nothing is asked and nothing is to be asked.
func (s *session) idle() bool { return !s.busy && len(s.queue) == 0 }

// stale says that the server may have ended the session, or may just be doing so.
func (s *session) stale() bool {
	silent := time.Since(s.sent)
	return s.conn != nil && s.idle() && (silent >= s.b.o.TTL || silent >= s.patience() && len(s.claims) == 0)
}

// end ends the session for us, with all that lives on it. What is under way is known only when it is answered, or has failed. mu is held.
func (s *session) end(cause error) {
	b := s.b
	if s.over != nil {
		return
	}
	s.over = cause
	s.cancel()
	if s == b.main {
		b.main = nil
		for _, w := range b.watches { // nobody tells them any more: they look again, which opens the next session
			w.on = nil
			b.wake(w)
		}
	}
	queue := s.queue
	s.queue = nil
	for _, k := range queue {
		k.settle(unsent(cause))
	}
	for c := range s.claims {
		if c.state != held {
			continue
		}
		b.bereave(c)
		if tell, reason := c.req.Lost, lost(cause); tell != nil && c.granted {
			b.later = append(b.later, func() { tell(reason) })
		}
	}
	b.prune()
}
