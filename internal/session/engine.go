// Package session holds locks that belong to a session of a database: the advisory locks of Postgres and the GET_LOCK of MySQL and MariaDB.
// It is what the backends for these share; they say through the interfaces Server and Conn how a session is opened and spoken to.
//
// Many locks live on one session. Its end ends them all, and is told at once. Requests of many goroutines go to the server together. Such locks are
// re-entrant on their session, and giving one back asks for no owner; so the engine keeps a table of its own of what each session has or may have, never asks for a key
// twice, and never gives one back twice. Readers are the exception: one session takes a key for each of them, and the server counts.
package session

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockport/lockport/driver"
)

// Backend implements driver.Backend, driver.Waiter, driver.Notifier and driver.BatchRenewer on the sessions of a Server. Safe for concurrent use.
//
// One main session carries all locks got without waiting, and whatever else is asked; it is opened by the first use, replaced when it has ended, and
// closed when it was idle for most of the TTL. Names that wait have sessions of their own, at most Options.Blockers.
type Backend struct {
	server  Server
	o       Options
	caps    driver.Capabilities
	errHeld error // of a key that somebody else has

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup // the sessions' goroutines

	mu       sync.Mutex
	later    []func() // what is called when mu is unlocked: what others gave us, which may take locks of their own
	closed   bool
	label    string
	main     *session          // the present one; nil: none
	blockers []*session        // those that wait, and those with locks got by waiting; also ended ones, until that is certain
	table    map[Key][]*claim  // what our sessions have, ask for, or give back: several of a key where readers are among them
	dead     map[string]*claim // by owner: those whose session has ended for us, and perhaps not for the server
	watches  map[Key]*watch    // who wants to know when a key is free
}

// poll is after how long a waiter that is not on a connection of its own looks again, or a third of the TTL if that is less.
const poll = time.Second

// maxDial bounds the opening of a session, as does the TTL.
const maxDial = 5 * time.Second

// New makes a Backend, of Options that were checked. It does no I/O.
func New(s Server, o Options) *Backend {
	caps := o.Capabilities
	caps.Ends, caps.FixedTTL, caps.Prompt = driver.EndsSession, o.TTL, true
	b := &Backend{
		server: s, o: o, caps: caps, errHeld: &driver.HeldError{Poll: min(poll, o.TTL/3)},
		table: make(map[Key][]*claim), dead: make(map[string]*claim), watches: make(map[Key]*watch),
	}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

// Capabilities implements driver.Backend.
func (b *Backend) Capabilities() driver.Capabilities { return b.caps }

// unlock unlocks mu, and calls what was left for then.
func (b *Backend) unlock() {
	if len(b.later) == 0 {
		b.mu.Unlock()
		return
	}
	later := b.later
	b.later = nil
	b.mu.Unlock()
	for _, f := range later {
		f()
	}
}

// Close implements driver.Backend. It ends the sessions, and with them whatever is still held, and returns when nothing is under way any more.
func (b *Backend) Close() error {
	b.mu.Lock()
	b.closed = true
	if b.main != nil {
		b.main.end(errClosed)
	}
	for _, s := range slices.Clone(b.blockers) {
		s.end(errClosed)
	}
	b.cancel()
	clear(b.watches)
	b.unlock()
	b.work.Wait()
	return nil
}

// mainSession returns the session that carries what does not wait, and begins one if there is none that is fit for use. mu is held.
func (b *Backend) mainSession() (*session, error) {
	if b.closed {
		return nil, unavailable(errClosed)
	}
	if b.main != nil && b.main.stale() {
		b.main.end(errIdle)
	}
	if b.main == nil {
		b.main = b.begin()
	}
	return b.main, nil
}

// layout makes the key of a request that asks for something, or says why there is none.
func (b *Backend) layout(req *driver.Request) (Key, error) {
	if req.TTL != b.o.TTL {
		return "", fmt.Errorf("%w: TTL %v, but that of the session is %v and holds for all its locks", driver.ErrRefused, req.TTL, b.o.TTL)
	}
	key, err := b.keyOf(req)
	if err != nil && classOf(err) == nil {
		err = fmt.Errorf("%w: %w", driver.ErrRefused, err)
	}
	return key, err
}

// keyOf is the key of what req asks for: the lock, or the permits of its name.
func (b *Backend) keyOf(req *driver.Request) (Key, error) {
	key, err := b.o.Layout(req.Name)
	if err == nil && req.Permits > 0 {
		key = b.o.Permit(key, 0)
	}
	return key, err
}
