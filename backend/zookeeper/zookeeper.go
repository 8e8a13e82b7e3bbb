package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/recent"
)

// New makes a client of lockport on a connection, which all its requests use. The connection stays the caller's: Close of the client does not close
// it, and closing it ends all locks. The TTL has to be said, as Options.TTL or by lockport.TTL, unless there is Options.Log. New does no I/O.
func New(conn *zk.Conn, o Options, opts ...lockport.Option) (*lockport.Client, error) {
	return lockport.NewSession(backendName, &o.TTL, opts, func() (driver.Backend, error) { return NewBackend(conn, o) })
}

// Connect makes a client of lockport on a connection of its own to an ensemble, of which addresses are some servers, "host:port". It does no I/O; the
// first use connects, and Close ends the session.
func Connect(addresses []string, o Options, opts ...lockport.Option) (*lockport.Client, error) {
	return lockport.NewSession(backendName, &o.TTL, opts, func() (driver.Backend, error) { return ConnectBackend(addresses, o) })
}

// NewBackend makes a backend for lockport.New, as New does.
func NewBackend(conn *zk.Conn, o Options) (*Backend, error) {
	if conn == nil {
		return nil, errors.New("the connection is nil")
	}
	if err := o.prepareShared(); err != nil {
		return nil, err
	}
	b := makeBackend(o)
	b.tick = cmp.Or(o.TickTime, defaultTick)
	b.conn, b.observed, b.session.id = conn, time.Now(), conn.SessionID()
	return b, nil
}

// ConnectBackend makes a backend for lockport.New, as Connect does.
func ConnectBackend(addresses []string, o Options) (*Backend, error) {
	clear := o.Username != "" && o.Dial == nil
	addresses, err := o.prepareOwn(addresses)
	if err != nil {
		return nil, err
	}
	b := makeBackend(o)
	b.ensemble = &ensemble{addresses: addresses, dial: o.Dial, ttl: o.TTL, clear: clear}
	return b, nil
}

func makeBackend(o Options) *Backend {
	return &Backend{
		o: o, caps: capabilities(o.TTL), tick: o.TickTime, preparing: make(chan struct{}, 1), done: make(chan struct{}),
		claims: make(map[claimKey]*claim), held: make(map[*claim]struct{}),
	}
}

// Backend is the driver.Backend. Safe for concurrent use.
type Backend struct {
	o         Options
	caps      driver.Capabilities
	ensemble  *ensemble     // nil: the connection is the caller's
	preparing chan struct{} // has an element while somebody prepares the connection
	done      chan struct{} // closed by Close

	visiting   sync.Once            // starts the goroutine that visits the server
	containers sync.RWMutex         // held for reading while one is created, and to close the connection
	released   recent.Values[int64] // by lock, the number of our last node, which was deleted

	mu       sync.Mutex
	conn     *zk.Conn  // nil: not made yet, or given up
	prepared time.Time // since when the connection can be used; zero: not yet
	sweeping bool      // there is a goroutine that looks for losses
	closed   bool
	tick     time.Duration // the servers' tickTime; 0: not known yet
	observed time.Time     // when the connection's session was looked at last
	session  session
	claims   map[claimKey]*claim
	held     map[*claim]struct{} // those of claims that are granted
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
		Shared:        true,
		Permits:       true,
		RemovalNotice: func(time.Duration) time.Duration { return noticeBound },
	}
}

// Capabilities implements driver.Backend.
func (b *Backend) Capabilities() driver.Capabilities { return b.caps }

// closeTime bounds Close where the server does not answer.
const closeTime = time.Second

var errClosed = errors.New("the backend is closed")

// Close implements driver.Backend. It ends a session of its own, and with it whatever is still held. On a connection of the caller's, what is
// still held ends with that.
func (b *Backend) Close() error {
	b.mu.Lock()
	conn, closed := b.conn, b.closed
	b.closed = true
	b.mu.Unlock()
	if closed {
		return nil
	}
	close(b.done)
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	_, _ = inTime(ctx, driver.ErrUnavailable, func() (any, error) {
		if b.ensemble == nil {
			b.leave()
		} else if conn != nil {
			b.hangUp(conn)
		}
		return nil, nil
	})
	return nil
}

// leave deletes the nodes of claims that are left on a connection that lives on.
func (b *Backend) leave() {
	b.mu.Lock()
	var left []*claim
	for _, c := range b.claims {
		c.abandoned = true
		left = append(left, c)
	}
	b.mu.Unlock()
	for _, c := range left {
		if c.findAgain() == nil && c.node() != "" {
			_ = c.withdraw()
		}
	}
}
