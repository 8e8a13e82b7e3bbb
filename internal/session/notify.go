package session

import (
	"slices"

	"github.com/lockport/lockport/driver"
)

// watch is a key of which somebody here wants to know when it is free. Guarded by Backend.mu.
type watch struct {
	key   Key
	wakes []*func()
	on    *session // where it is awaited, or its Await is on its way; nil: nowhere
	ask   *call    // that Await
}

// Notify implements driver.Notifier.
func (b *Backend) Notify(req driver.Request, wake func()) (stop func()) {
	key, err := b.keyOf(&req)
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
	for _, c := range b.table[key] {
		c.contended = true
	}
	if w.on == nil {
		if s, err := b.mainSession(); err == nil && s.conn != nil { // otherwise when it is live
			s.listen(w)
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
	if s := w.on; s != nil && s.over == nil && !s.withdraw(w.ask) {
		s.ask(&Op{Kind: Leave, Key: w.key}, nil)
	}
}

// listen queues the Await of w. mu is held.
func (s *session) listen(w *watch) {
	w.on = s
	w.ask = s.ask(&Op{Kind: Await, Key: w.key}, func() { s.b.listens(w, s) })
}

// listens draws the conclusions from the end of an Await: a key may have been freed before the server knew. mu is held.
func (b *Backend) listens(w *watch, s *session) {
	switch {
	case w.on != s:
	case w.ask.err != nil, w.ask.op.Err != nil:
		w.on = nil // the waiter looks again anyway, and the next session asks again
	default:
		b.wake(w)
	}
}

// hint tells those here who want to know when key is free. mu is held.
func (b *Backend) hint(key Key) {
	if w := b.watches[key]; w != nil {
		b.wake(w)
	}
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
	for _, c := range b.table[key] {
		c.contended = true
		if c.req.Contended != nil {
			b.later = append(b.later, c.req.Contended)
		}
	}
}
