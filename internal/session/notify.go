package session

import "github.com/lockport/lockport/driver"

// watch is a key for which local waiters want to be woken. Guarded by Backend.mu.
type watch struct {
	key   Key
	wakes map[*func()]bool
	on    *session // that awaits the key, or has its Await queued or under way; nil: none
}

// Notify implements driver.Notifier.
func (b *Backend) Notify(req driver.Request, wake func()) (stop func()) {
	key, err := b.keyOf(&req)
	if err != nil {
		return func() {}
	}
	b.mu.Lock()
	defer b.unlock()
	w := b.watches[key]
	if w == nil {
		w = &watch{key: key, wakes: make(map[*func()]bool)}
		b.watches[key] = w
	} else {
		b.callbacks = append(b.callbacks, wake) // earlier hints woke the others only
	}
	w.wakes[&wake] = true
	if w.on == nil {
		if s, err := b.mainSession(); err == nil && s.conn != nil { // otherwise run does it once connected
			s.register(w)
		}
	}
	return func() { b.unwatch(w, &wake) }
}

// unwatch ends what Notify began for wake.
func (b *Backend) unwatch(w *watch, wake *func()) {
	b.mu.Lock()
	defer b.unlock()
	delete(w.wakes, wake)
	if len(w.wakes) > 0 || b.watches[w.key] != w {
		return
	}
	delete(b.watches, w.key)
	if w.on != nil {
		w.on.ask(&Op{Kind: Leave, Key: w.key}, nil)
	}
}

// register queues the Await of w if there is room for one more lock. Caller holds mu.
func (s *session) register(w *watch) {
	if s.b.full(0) != nil {
		return // the waiter polls
	}
	w.on = s
	s.ask(&Op{Kind: Await, Key: w.key}, func(op *Op) {
		switch {
		case op.Err == nil:
			s.b.wake(w) // the key may have been freed before the server knew of the Await
		case w.on == s:
			w.on = nil // the waiter polls anyway, and the next session awaits again
		}
	})
}

// hint wakes the local waiters for key. Caller holds mu.
func (b *Backend) hint(key Key) {
	if w := b.watches[key]; w != nil {
		b.wake(w)
	}
}

// wake wakes the waiters of w. Caller holds mu.
func (b *Backend) wake(w *watch) {
	for f := range w.wakes {
		b.callbacks = append(b.callbacks, *f)
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
		if c.req.Contended != nil {
			b.callbacks = append(b.callbacks, c.req.Contended)
		}
	}
}
