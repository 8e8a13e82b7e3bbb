// Package session implements locks that belong to a database session: Postgres advisory locks, and GET_LOCK of MySQL and MariaDB. The backends for
// these share it. They dial sessions, each a Conn.
//
// Many locks live on one session. Its end ends them all, and holders are told at once. Requests of many goroutines go to the server together. These
// locks are re-entrant within their session, and a release names no owner. So the engine records what each session has or may have, and never takes
// or releases a key twice. Readers are the exception: one session takes a key once for each of them, and the server counts.
package session

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockport/lockport/driver"
)

// Backend implements driver.Backend, driver.Waiter, driver.Notifier and driver.BatchRenewer on the sessions that Options.Dial opens. Safe for concurrent use.
//
// One main session carries the locks acquired without waiting, and every other request. It opens on first use, is replaced after it ends, and is
// closed after most of the TTL without use. Names that wait have sessions of their own, at most Options.Blockers.
type Backend struct {
	o       Options
	errHeld error // another owner has the key

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup // the sessions' goroutines

	mu        sync.Mutex
	callbacks []func() // to run once mu is unlocked: they may take locks of their own
	label     string
	main      *session         // nil: none
	failed    time.Time        // when a session last failed to open
	blockers  []*session       // the other sessions: they wait, hold one lock, or are idle; also ended ones
	table     map[Key][]*claim // all claims that are not gone; several on a key only with readers, permits or orphans
	watches   map[Key]*watch   // local waiters to wake when a key is free
}

// poll, or a third of the TTL if that is less, is how often a waiter without a connection of its own tries again. redialPause follows a failed Dial.
const poll, redialPause = time.Second, 50 * time.Millisecond

// MaxDial bounds the opening of a session. The TTL does not: a busy server may take longer for the login and the statements, and an opening that is
// cut off starts over.
const MaxDial = 5 * time.Second

// New makes a Backend from validated Options. It does no I/O.
func New(o Options) *Backend {
	b := &Backend{o: o, errHeld: &driver.HeldError{Poll: min(poll, o.TTL/3)}, table: make(map[Key][]*claim), watches: make(map[Key]*watch)}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

// Blockers returns limit, or less if a pool that Dial takes connections from is too small: one is for locks, and one for other queries.
func Blockers(pool *sql.DB, limit int) int {
	if most := pool.Stats().MaxOpenConnections; most > 0 {
		return max(0, min(limit, most-2))
	}
	return limit
}

// Capabilities implements driver.Backend.
func (b *Backend) Capabilities() driver.Capabilities { return b.o.Capabilities }

// unlock unlocks mu and runs the callbacks.
func (b *Backend) unlock() {
	callbacks := b.callbacks
	b.callbacks = nil
	b.mu.Unlock()
	for _, f := range callbacks {
		f()
	}
}

// Close implements driver.Backend. It ends the sessions, and with them all held locks. It returns when nothing is under way.
func (b *Backend) Close() error {
	b.mu.Lock()
	if b.main != nil {
		b.main.end(errClosed)
	}
	for _, s := range b.blockers {
		s.end(errClosed)
	}
	b.cancel()
	b.unlock()
	b.work.Wait()
	if b.o.Close != nil {
		return b.o.Close()
	}
	return nil
}

// mainSession returns the session for requests that do not wait. It opens one if none is usable. Caller holds mu.
func (b *Backend) mainSession() (*session, error) {
	if b.ctx.Err() != nil {
		return nil, unavailable(errClosed)
	}
	if b.main != nil && b.main.stale() {
		b.main.end(errIdle)
	}
	if b.main == nil {
		b.main = b.open()
	}
	return b.main, nil
}

// keyOf returns the key that req asks for: the lock, or the permits of its name.
func (b *Backend) keyOf(req *driver.Request) (Key, error) {
	key, err := b.o.Layout.Key(req.Name)
	if req.Permits > 0 {
		key = b.o.Layout.Permit(key, 0)
	}
	return key, err
}

// full returns an error if this client has no room for so many more locks, beside those that it has or awaits. It forgets the ended blockers that
// left nothing behind. Caller holds mu.
func (b *Backend) full(more int) error {
	b.blockers = slices.DeleteFunc(b.blockers, func(s *session) bool { return s.endErr != nil && len(s.claims) == 0 })
	if b.o.Limit == nil {
		return nil
	}
	n, limit := len(b.watches)+len(b.blockers), b.o.Limit()
	if b.main != nil {
		n += len(b.main.claims)
	}
	if limit == 0 || n+more <= limit {
		return nil
	}
	return fmt.Errorf("%w: this client has or awaits %d locks, half of what the server's lock table holds: raise max_locks_per_transaction", driver.ErrUnavailable, n)
}
