package session

import (
	"context"
	"slices"
	"time"
)

// call is an Op on its way through a session: queued, sent, and answered or failed. Whose goroutine waits for a call may be told to make the next
// request, for all that are queued: so that requests of many go together, and a lone one needs no other goroutine. Guarded by Backend.mu.
type call struct {
	op     *Op
	own    Op // which op points to, if it is nobody else's
	state  progress
	blocks bool  // by Conn.Wait
	lead   bool  // who waits is to make the next request
	err    error // nothing is known of the answer; of a class of package driver, which says whether it was sent

	claim *claim   // whose Try or Free it is
	watch *watch   // whose Await it is
	tomb  *session // whose End it is

	waiter *waiter       // in await; nil: nobody
	over   chan struct{} // if not nil: closed when it is answered or has failed
}

// progress is how far a call has come.
type progress uint8

const (
	unasked progress = iota
	queued
	sent
	settled
)

// newCall makes a call with an op of its own. mu is held.
func (b *Backend) newCall(op Op) *call {
	if n := len(b.calls); n > 0 {
		k := b.calls[n-1]
		b.calls = b.calls[:n-1]
		k.own = op
		k.op = &k.own
		return k
	}
	k := &call{own: op}
	k.op = &k.own
	return k
}

// freeCall takes back one that is settled and nobody looks at any more: of one owner there is one call at a time, see driver.Backend. mu is held.
func (b *Backend) freeCall(k *call) {
	*k = call{}
	if len(b.calls) < MaxBatch {
		b.calls = append(b.calls, k)
	}
}

// append queues k. mu is held.
func (s *session) append(k *call) {
	k.state = queued
	s.queue = append(s.queue, k)
}

// start makes the request for what is queued on the caller's goroutine, if none is under way. mu is held, but not meanwhile.
func (s *session) start(ctx context.Context) {
	if s.conn != nil && s.over == nil && !s.busy && len(s.queue) > 0 {
		s.request(ctx)
	}
}

// startLater is start on another goroutine. mu is held.
func (s *session) startLater() {
	if s.conn != nil && s.over == nil && !s.busy && len(s.queue) > 0 {
		s.next()
	}
}

// await waits until k is answered or has failed. false: ctx has ended before. mu is held, but not meanwhile.
func (s *session) await(ctx context.Context, k *call) bool {
	b := s.b
	if k.state == settled {
		return true
	}
	w := b.newWaiter(ctx, k.blocks)
	k.waiter = w
	left := false
	for k.state != settled && !left {
		b.unlock()
		w.wait()
		b.mu.Lock()
		left = ctx.Err() != nil
		if k.lead {
			k.lead = false
			if left && s.over == nil {
				k.waiter = nil
				s.next()
			} else if s.over == nil {
				s.request(ctx)
			}
		}
	}
	k.waiter = nil
	b.freeWaiter(w)
	return k.state == settled
}

// next has the next request made, if there is something to ask for: by one of those who wait, or by a goroutine for those who do not. mu is held.
func (s *session) next() {
	s.busy = false
	if s.over != nil || len(s.queue) == 0 {
		return
	}
	s.busy = true
	for _, k := range s.queue {
		if k.waiter != nil {
			k.lead = true
			k.waiter.signal()
			return
		}
	}
	go s.requestFor()
}

// requestFor makes a request for those who do not wait for it. busy is set.
func (s *session) requestFor() {
	s.b.mu.Lock()
	defer s.b.unlock()
	if s.over == nil {
		s.request(s.b.ctx)
	}
}

// request makes one request for what is queued. mu is held, but not meanwhile.
func (s *session) request(ctx context.Context) {
	b := s.b
	if len(s.queue) == 0 && len(s.leaves) == 0 {
		s.busy = false
		return
	}
	s.busy, s.returned, s.answered = true, false, false
	s.batch, s.ops = s.batch[:0], s.ops[:0]
	for len(s.leaves) > 0 && len(s.ops) < MaxBatch/2 { // ahead of the rest, in which the same key may be awaited anew
		s.ops = append(s.ops, &Op{Kind: Leave, Key: s.leaves[0]})
		s.leaves = s.leaves[1:]
	}
	n := min(len(s.queue), MaxBatch-len(s.ops))
	for i, k := range s.queue[:n] {
		if k.op.Kind == Await && slices.Contains(s.leaves, k.op.Key) { // which would come behind, and end what this begins
			n = i
			break
		}
		k.state = sent
		s.batch = append(s.batch, k)
		s.ops = append(s.ops, k.op)
	}
	left := copy(s.queue, s.queue[n:])
	clear(s.queue[left:])
	s.queue = s.queue[:left]
	blocks := len(s.batch) > 0 && s.batch[0].blocks
	s.sent = time.Now()
	b.work.Add(1)
	b.unlock()
	if blocks {
		s.conn.Wait(ctx, s.ops[0], s.done)
	} else {
		s.conn.Do(ctx, s.ops, s.done)
	}
	b.mu.Lock()
	s.returned = true
	if s.answered {
		s.next()
	}
}

// finish is the done of every request.
func (s *session) finish(err error) {
	b := s.b
	b.mu.Lock()
	if err != nil {
		s.end(err)
		err = unknown(err)
	} else if slices.ContainsFunc(s.ops, (*Op).confirms) {
		s.confirmed = s.sent
	}
	for i, k := range s.batch {
		s.settle(k, err, true)
		s.batch[i] = nil
	}
	s.answered = true
	if s.returned {
		s.next()
	}
	if s.over != nil {
		b.prune()
	}
	b.work.Done()
	b.unlock()
}

// confirms says that the answer can only be the server's. A Conn may know by itself what it awaits, or that there is no room for a lock.
func (op *Op) confirms() bool { return op.Err == nil && op.Kind != Await && op.Kind != Leave }

// settle draws the conclusions from what became of a call. err: nothing is known of its answer, or if it was not sent, it had no effect. mu is held.
func (s *session) settle(k *call, err error, wasSent bool) {
	k.err = err
	if k.op.Err != nil && classOf(k.op.Err) == nil {
		k.op.Err = unavailable(k.op.Err)
	}
	k.settle()
	switch {
	case k.claim != nil && k.op.Kind == Try:
		s.b.tried(k.claim, err, wasSent)
	case k.claim != nil && k.op.Kind == Free:
		s.b.gaveBack(k.claim, k.op, err)
	case k.watch != nil:
		s.b.listens(k.watch, s, err == nil && k.op.Err == nil, k.op)
	case k.tomb != nil:
		s.b.bury(k, err)
	}
}

// settle marks the end of a call. mu is held.
func (k *call) settle() {
	k.state = settled
	if k.waiter != nil {
		k.waiter.signal()
	}
	if k.over != nil {
		close(k.over)
		k.over = nil
	}
}

// withdraw takes back a call that was not sent, and reports that it had no effect. mu is held.
func (s *session) withdraw(k *call) bool {
	if k.state != queued {
		return k.state == unasked
	}
	for i, q := range s.queue {
		if q == k {
			s.queue = append(s.queue[:i], s.queue[i+1:]...)
			break
		}
	}
	k.state = unasked
	if k.lead {
		k.lead = false
		s.next()
	}
	return true
}
