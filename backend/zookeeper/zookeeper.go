package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

// New makes a client of lockport on an ensemble, of which servers are some addresses, "host:port". It does no I/O; the session is
// opened by the first use, and ends with Close.
func New(servers []string, o Options, opts ...lockport.Option) (*lockport.Client, error) {
	ttl, err := lockport.SessionTTL(o.TTL, opts)
	if err != nil {
		return nil, lockport.InvalidOption(backendName, err)
	}
	o.TTL = ttl
	b, err := NewBackend(servers, o)
	if err != nil {
		return nil, lockport.InvalidOption(backendName, err)
	}
	return lockport.New(b, opts...)
}

// NewBackend makes a backend for lockport.New, as New does.
func NewBackend(servers []string, o Options) (*Backend, error) {
	clear := o.Username != "" && o.Dial == nil
	addresses, err := o.prepare(servers)
	if err != nil {
		return nil, err
	}
	b := &Backend{servers: addresses, o: o, caps: capabilities(o.TTL), clear: clear, tick: o.TickTime, claims: make(map[claimKey]*claim)}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b, nil
}

// Backend is the driver.Backend. Safe for concurrent use.
type Backend struct {
	servers []string
	o       Options
	caps    driver.Capabilities
	clear   bool            // a password goes to the servers without TLS, as far as is known
	lives   sync.WaitGroup  // those that are not shut down yet
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc

	mu     sync.Mutex
	life   *life         // the present one; nil: not begun
	tick   time.Duration // 0: not known yet
	plain  bool          // the server has no containers
	closed bool
	claims map[claimKey]*claim
}

var _ interface {
	driver.Backend
	driver.Waiter
	driver.BatchRenewer
	driver.Inspector
	driver.Breaker
	driver.Checker
} = (*Backend)(nil)

const backendName = "zookeeper"

// noticeBound is within what time a holder is told that its node was deleted.
const noticeBound = 500 * time.Millisecond

func capabilities(ttl time.Duration) driver.Capabilities {
	return driver.Capabilities{
		Backend:       backendName,
		Ends:          driver.EndsSession,
		FixedTTL:      ttl,
		Token:         driver.TokenData,
		Fair:          driver.FairFIFO,
		Wake:          driver.WakeQueue,
		Failover:      driver.FailoverSafe,
		Prompt:        true,
		Queue:         true,
		RemovalNotice: func(time.Duration) time.Duration { return noticeBound },
	}
}

// Capabilities implements driver.Backend.
func (b *Backend) Capabilities() driver.Capabilities { return b.caps }

var errClosed = errors.New("the backend is closed")

// closeTime bounds Close where the server does not answer.
const closeTime = time.Second

// Close implements driver.Backend. It ends the session, and with it whatever is still held.
func (b *Backend) Close() error {
	b.mu.Lock()
	l := b.life
	b.closed = true
	b.mu.Unlock()
	b.cancel()
	if l != nil {
		l.end(unavailable(errClosed))
	}
	b.lives.Wait()
	return nil
}

// live returns a life whose session is attached to a server. It waits for one until ctx ends, or every server was tried in vain.
func (b *Backend) live(ctx context.Context) (*life, error) {
	for {
		l, err := b.current()
		if err != nil {
			return nil, err
		}
		if _, err = l.await(ctx); err == nil {
			return l, nil
		}
		if l.ended() == nil || errors.Is(err, driver.ErrRefused) || ctx.Err() != nil {
			return nil, err
		}
	}
}

// current returns the present life, or begins one.
func (b *Backend) current() (*life, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, unavailable(errClosed)
	}
	if b.life == nil || b.life.ended() != nil {
		l, err := b.begin()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", driver.ErrRefused, err)
		}
		b.life = l
	}
	return b.life, nil
}

// tickTime is that of the servers, or 0 if it is not known yet.
func (b *Backend) tickTime() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tick
}

func (b *Backend) setTickTime(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tick = d
}
