package lockport

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/clock"
)

// Locker acquires named locks. All methods are safe for concurrent use. It is not a sync.Locker: acquiring can fail, and a held lock can be lost.
type Locker interface {
	// Acquire waits until name is acquired. ctx bounds the wait, never the hold. Within a process callers are served first in, first out. Acquire
	// rides out an outage that begins while it waits.
	Acquire(ctx context.Context, name string, opts ...AcquireOption) (*Lock, error)
	// TryAcquire makes one attempt; ErrHeld if another client, or another goroutine of this process, holds name.
	TryAcquire(ctx context.Context, name string, opts ...AcquireOption) (*Lock, error)
	// Close ends every hold (Err = ErrClosed), releases it, stops all goroutines and frees the Locker's own resources.
	Close() error
}

// Client is the Locker of a backend. It waits, renews, hands off and ends holds in the same way for all backends. Safe for concurrent use.
type Client struct {
	backend  driver.Backend
	caps     driver.Capabilities
	batch    driver.BatchRenewer // nil if the backend lacks it, like the next four
	waiter   driver.Waiter
	notifier driver.Notifier
	requeuer driver.Requeuer
	attacher driver.Attacher
	cfg      config
	identity string // common to all owner ids of this client

	base      time.Time     // the zero of now
	suspended time.Duration // of clock.Present at base

	ctx        context.Context // of calls in the background; ended when Close has waited long enough
	stop       context.CancelFunc
	background sync.WaitGroup // every goroutine that the client started
	done       chan struct{}  // closed when Close has finished
	closeErr   error          // what Close returned, readable when done is closed

	mu      sync.Mutex
	closed  bool
	idle    chan struct{} // made by Close, closed when nothing is left to release
	queues  map[queueKey]*queue
	timers  timers
	notices []driver.Notice

	unsettled int    // claims that are being made, requeued or undone
	undos     []undo // first in, first out
	undoers   int    // goroutines that undo
}

// New makes a client of b. It does no I/O: the first call, or Check, contacts the server. An option that b cannot fulfil is an error. The client
// closes b, unless New fails.
func New(b driver.Backend, opts ...Option) (*Client, error) {
	fail := func(backend string, err error) (*Client, error) {
		return nil, &Error{Op: "new", Backend: backend, Err: err}
	}
	if b == nil {
		return fail("", fmt.Errorf("%w: no backend", ErrInvalidOption))
	}
	caps := b.Capabilities()
	cfg, err := newConfig(opts)
	if err != nil {
		return fail(caps.Backend, err)
	}
	cfg.ttl = cmp.Or(cfg.ttl, caps.FixedTTL, DefaultTTL)
	c := &Client{
		backend:  b,
		caps:     caps,
		cfg:      cfg,
		identity: newIdentity(cfg.label, cfg.hideHost),
		done:     make(chan struct{}),
		queues:   make(map[queueKey]*queue),
	}
	c.base, c.suspended = clock.Present()
	c.batch, _ = driver.As[driver.BatchRenewer](b)
	c.waiter, _ = driver.As[driver.Waiter](b)
	c.notifier, _ = driver.As[driver.Notifier](b)
	c.requeuer, _ = driver.As[driver.Requeuer](b)
	c.attacher, _ = driver.As[driver.Attacher](b)
	// A wrapper without Unwrap hides the interfaces.
	c.caps.Detach = c.caps.Detach && c.attacher != nil
	if c.waiter == nil && (caps.Wake == driver.WakeQueue || caps.Wake == driver.WakeQueueOrPoll) || c.notifier == nil && caps.Wake == driver.WakeNotify {
		c.caps.Wake = driver.WakePoll
	}
	err = cfg.acquisition.check(c.caps)
	for _, r := range cfg.require {
		err = cmp.Or(err, r.check(c.caps))
	}
	if err != nil {
		return fail(caps.Backend, err)
	}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c, nil
}

// NewSession makes a client for the New of a backend whose locks share a session. *ttl is the session's TTL from the backend's Options. If it is 0,
// NewSession sets it from the option TTL before it calls backend. Two different values, and an error of backend, are an *Error that matches
// ErrInvalidOption.
func NewSession(name string, ttl *time.Duration, opts []Option, backend func() (driver.Backend, error)) (*Client, error) {
	cfg, err := newConfig(opts)
	if err == nil && *ttl != 0 && cfg.ttl != 0 && *ttl != cfg.ttl {
		err = fmt.Errorf("the session's TTL is %v in the backend's options, and %v in TTL: give one of them", *ttl, cfg.ttl)
	}
	if err != nil {
		return nil, InvalidOption(name, err)
	}
	*ttl = cmp.Or(*ttl, cfg.ttl)
	b, err := backend()
	if err != nil {
		return nil, InvalidOption(name, err)
	}
	c, err := New(b, opts...)
	if err != nil {
		_ = b.Close()
	}
	return c, err
}

// Check tests that the server answers, admits this client and can hold locks. It logs settings that put locks at risk as warnings, and what the
// server hides as information. Open calls it. A backend that is not a driver.Checker always succeeds.
func (c *Client) Check(ctx context.Context) error {
	if _, ok := driver.As[driver.Checker](c.backend); !ok {
		return nil
	}
	check := func(checker driver.Checker) ([]driver.Notice, error) { return checker.Check(ctx) }
	notices, err := query(ctx, c, "open", "", nil, "be checked", check)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.notices = notices
	c.mu.Unlock()
	for _, n := range notices {
		level := slog.LevelWarn
		if n.Unknown {
			level = slog.LevelInfo
		}
		c.logger().Log(ctx, level, "lockport: "+n.Text, "backend", c.caps.Backend, "notice", n.ID, "remedy", n.Remedy)
	}
	return nil
}

// Notices returns the findings of the last successful Check.
func (c *Client) Notices() []driver.Notice {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.notices)
}

// Capabilities states what the backend promises.
func (c *Client) Capabilities() driver.Capabilities { return c.caps }

// Backend returns the driver, for its optional interfaces: see driver.As.
func (c *Client) Backend() driver.Backend { return c.backend }

// now is the time since the client was made, including the time for which the machine was suspended. All instants inside the client are on this
// scale.
func (c *Client) now() time.Duration {
	now, suspended := clock.Present()
	return now.Sub(c.base) + suspended - c.suspended
}

func (c *Client) logger() *slog.Logger {
	if c.cfg.logger != nil {
		return c.cfg.logger
	}
	return slog.Default()
}

// fail makes the error that a user gets.
func (c *Client) fail(op, name string, err error) error {
	return &Error{Op: op, Backend: c.caps.Backend, Name: name, Err: err}
}
