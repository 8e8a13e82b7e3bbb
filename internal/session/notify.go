package session

import (
	"slices"
	"time"

	"github.com/lockport/lockport/driver"
)

// leaveWithin is how long a Leave waits for another request that it can go with.
const leaveWithin = 50 * time.Millisecond

// watch is a key of which somebody here wants to know when it is free. Guarded by Backend.mu.
type watch struct {
	key   Key
	wakes []*func()
	on    *session // where it is awaited, or its Await is on its way; nil: nowhere
	ask   *call    // that Await
}

// Notify implements driver.Notifier.
func (b *Backend) Notify(req driver.Request, wake func()) (stop func()) {
	key, err := b.o.Layout(req.Name)
	if err != nil {
		return func() {}
	}
	b.mu.Lock()
	defer b.unlock()
	if b.closed {
		return func() {}
	}
	w := b.watches[key]
	if w == nil {
		w = &watch{key: key}
		b.watches[key] = w
	} else {
		b.later = append(b.later, wake) // what came before this call was told to the others only
	}
	w.wakes = append(w.wakes, &wake)
	if w.on == nil && !b.deaf {
		if s, err := b.mainSession(); err == nil && s.conn != nil { // otherwise when it is live
			s.listen(w)
			s.startLater()
		}
	}
	return func() { b.unwatch(w, &wake) }
}

// unwatch ends what Notify began for wake.
func (b *Backend) unwatch(w *watch, wake *func()) {
	b.mu.Lock()
	defer b.unlock()
	i := slices.Index(w.wakes, wake)
	if i < 0 {
		return
	}
	w.wakes = slices.Delete(w.wakes, i, i+1)
	if len(w.wakes) > 0 || b.watches[w.key] != w {
		return
	}
	delete(b.watches, w.key)
	if s := w.on; s != nil && !s.withdraw(w.ask) {
		s.leave(w.key)
	}
}

// listen queues the Await of w. mu is held.
func (s *session) listen(w *watch) {
	w.on = s
	w.ask = &call{op: &Op{Kind: Await, Key: w.key}, watch: w}
	s.append(w.ask)
}

// listens draws the conclusions from the end of an Await: a key may have been freed before the server knew. mu is held.
func (b *Backend) listens(w *watch, s *session, answered bool, op *Op) {
	switch {
	case w.on != s:
	case !answered:
		w.on = nil // the waiter looks again anyway, and the next session asks again
	case !op.OK:
		b.deaf, w.on = true, nil
	default:
		b.wake(w)
	}
}

// leave has a key left with the next request, or soon. mu is held.
func (s *session) leave(key Key) {
	s.leaves = append(s.leaves, key)
	s.flushSoon()
}

func (s *session) flushSoon() {
	if !s.flushing && s.over == nil && len(s.leaves) > 0 {
		s.flushing = true
		time.AfterFunc(leaveWithin, s.flush)
	}
}

// flush sends the leaves that no other request has taken along.
func (s *session) flush() {
	s.b.mu.Lock()
	defer s.b.unlock()
	if s.over == nil && s.idle() {
		s.request(s.b.ctx)
	}
	s.flushing = false
	s.flushSoon() // one request may not take all, or was under way
}

// wake tells all who watch w. mu is held.
func (b *Backend) wake(w *watch) {
	for _, f := range w.wakes {
		b.later = append(b.later, *f)
	}
}

// freedElsewhere is Events.Freed.
func (b *Backend) freedElsewhere(key Key) {
	b.mu.Lock()
	defer b.unlock()
	b.hint(key)
}

// contended is Events.Contended.
func (b *Backend) contended(key Key) {
	b.mu.Lock()
	defer b.unlock()
	if c := b.table[key]; c != nil && c.req.Contended != nil {
		b.later = append(b.later, c.req.Contended)
	}
}
