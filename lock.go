package lockport

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport/driver"
)

// Token is a fencing token: a number greater than that of every earlier holder of the name. Storage that the lock protects should remember the
// greatest token it has seen and refuse a smaller one. Then even a holder that does not know yet that it lost the lock can do no harm. (M. Kleppmann,
// How to do distributed locking, 2016.)
type Token uint64

// Lock is a hold of a name, as Acquire returns it. All methods are safe for concurrent use.
type Lock struct {
	claim    *claim
	token    Token
	acquired time.Duration
	limit    time.Duration   // when MaxHold ends it, or never
	ctx      context.Context // of the call that acquired it; nil without hooks

	ended atomic.Pointer[end]

	releasing sync.WaitGroup // the Release that releases the claim, while under way
	outcome   error          // what that Release returns, readable once releasing is done

	// Guarded by the client's mutex.
	outer    *Lock              // the hold that this inner hold belongs to; nil: none. Never changes.
	keep     time.Duration      // until then its MinHold keeps the claim
	lost     chan struct{}      // made on demand
	watchers map[any]func(*end) // called when the hold ends, for contexts and inner holds
}

// end is how a hold ended.
type end struct {
	err  error // ErrReleased, ErrClosed, or an error that wraps ErrLost
	lost bool  // the latter
}

// The two ends that need no reason.
var (
	released = &end{err: ErrReleased}
	closed   = &end{err: ErrClosed}
)

// Name is the name that is locked.
func (l *Lock) Name() string { return l.claim.req.Name }

// Owner is the id under which the server knows the holder: 32 hexadecimal digits, a colon, host, process id and label for people, and a random
// part. Holds handed off within the process share one.
func (l *Lock) Owner() string { return l.claim.req.Owner }

// Token returns the fencing token: greater than that of every earlier hold of the name, but not always among readers, or among permits. false: the
// backend has none. The packages below fence let storage refuse a token smaller than one it has seen.
func (l *Lock) Token() (Token, bool) { return l.token, l.token > 0 }

// Valid reports whether the lock is held, by comparing the clock now. It is right even after a pause in which no timer could fire. On
// systems other than Linux it misses the time for which the machine was suspended. It does no I/O.
func (l *Lock) Valid() bool { return l.Err() == nil }

// Err is nil while the lock is held, by comparing the clock now. Afterwards it matches ErrReleased, ErrClosed, or ErrLost with its reason.
// It does no I/O.
func (l *Lock) Err() error {
	c, e := l.claim.client, l.ended.Load()
	if now := c.now(); e == nil && now >= min(time.Duration(l.claim.deadline.Load()), l.limit) {
		c.mu.Lock()
		e = l.endAt(now) // nil: renewed just now
		c.mu.Unlock()
	}
	if e == nil {
		return nil
	}
	return c.fail("hold", l.Name(), e.err)
}

// endAt returns how the hold has ended. If its time is up at now, it ends the hold. nil: it has not ended. The mutex is held.
func (l *Lock) endAt(now time.Duration) *end {
	if l.ended.Load() == nil {
		l.claim.expire(now)
	}
	return l.ended.Load()
}

// Deadline is when the hold ends if the server is not heard from again: the end of its validity less a margin, or of MaxHold if that is earlier. Renewal
// moves it. false: the hold has no deadline (file without MaxHold), or is known to have ended: see Err.
func (l *Lock) Deadline() (time.Time, bool) {
	deadline := min(time.Duration(l.claim.deadline.Load()), l.limit)
	if deadline == never || l.ended.Load() != nil {
		return time.Time{}, false
	}
	now := time.Now() // read first: a pause between the two readings makes the deadline earlier, never later
	return now.Add(deadline - l.claim.client.now()), true
}

// TTL bounds how long the lock stays taken if its holder goes silent: see the option TTL.
func (l *Lock) TTL() time.Duration { return l.claim.req.TTL }

// Lost returns a channel that is closed when the lock is lost, never by Release or Close. After a pause of the process Err may report the loss before
// the channel is closed.
func (l *Lock) Lost() <-chan struct{} {
	c := l.claim.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.lost == nil {
		l.lost = make(chan struct{})
		if e := l.ended.Load(); e != nil && e.lost {
			close(l.lost)
		}
	}
	return l.lost
}

// Context returns a context that carries the hold for Reenter, and ends with parent or with the hold. If the hold ends, the cause is what Err
// returns. You must call cancel, which frees the context's resources.
func (l *Lock) Context(parent context.Context) (ctx context.Context, cancel context.CancelFunc) {
	ctx, cancelCause := context.WithCancelCause(WithLock(parent, l))
	c := l.claim.client
	c.mu.Lock()
	defer c.mu.Unlock()
	ends := func(e *end) { cancelCause(c.fail("hold", l.Name(), e.err)) }
	if e := l.endAt(c.now()); e != nil {
		ends(e)
	} else {
		l.watch(ctx, ends)
	}
	return ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(l.watchers, ctx)
		cancelCause(context.Canceled)
	}
}

// watch calls f when the hold ends, unless key is deleted from the watchers before. The mutex is held.
func (l *Lock) watch(key any, f func(*end)) {
	if l.watchers == nil {
		l.watchers = make(map[any]func(*end))
	}
	l.watchers[key] = f
}

// As sets target, a non-nil pointer, to the backend's own view of the lock, if it has one of that type. The types are
// *redis.Entry, *etcd.Key, *zookeeper.Node, *postgres.Session and, for the file backend, **os.File.
func (l *Lock) As(target any) bool {
	l.claim.client.mu.Lock()
	lease := l.claim.lease // nil after a Detach without an answer
	l.claim.client.mu.Unlock()
	a, ok := lease.(driver.LeaseAs)
	return ok && a.As(target)
}

// finish ends the hold. Only the first call has an effect and returns true. The mutex is held.
func (l *Lock) finish(e *end) bool {
	if !l.ended.CompareAndSwap(nil, e) {
		return false
	}
	if e.lost && l.lost != nil {
		close(l.lost)
	}
	for _, f := range l.watchers {
		f(e)
	}
	return true
}

// end is finish, and tells the hooks in the background, and of a loss the logger. The mutex is held.
func (l *Lock) end(e *end) {
	c := l.claim.client
	switch event := l.event(c.now(), nil); {
	case !l.finish(e):
	case e.lost:
		event.Err = e.err
		c.inBackground(func() { c.reportLost(event) })
	case len(c.cfg.hooks) > 0:
		c.inBackground(func() { c.reportReleased(event) })
	}
}
