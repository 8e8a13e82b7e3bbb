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
)

// New makes a lockport client on conn, which carries all its requests. Closing the client leaves conn open; closing conn ends all locks.
// Set the TTL, by Options.TTL or lockport.TTL, unless you set Options.Log. New does no I/O.
func New(conn *zk.Conn, o Options, opts ...lockport.Option) (*lockport.Client, error) {
	return lockport.NewSession(backendName, &o.TTL, opts, func() (driver.Backend, error) { return NewBackend(conn, o) })
}

// Connect makes a lockport client on a connection of its own. addresses are some of the ensemble's servers, "host:port". Connect does no
// I/O: the first use connects. Close ends the session.
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
	b.conn, b.session.id = conn, conn.SessionID()
	b.observe()
	return b, nil
}

// ConnectBackend makes a backend for lockport.New, as Connect does.
func ConnectBackend(addresses []string, o Options) (*Backend, error) {
	plaintext := o.Username != "" && o.Dial == nil
	addresses, err := o.prepareOwn(addresses)
	if err != nil {
		return nil, err
	}
	b := makeBackend(o)
	b.addresses, b.plaintext = addresses, plaintext
	return b, nil
}

func makeBackend(o Options) *Backend {
	b := &Backend{
		o: o, tick: o.TickTime, preparing: make(chan struct{}, 1),
		claims: make(map[string]*claim), watches: make(map[string]<-chan zk.Event),
	}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

// Backend is the driver.Backend. Safe for concurrent use.
type Backend struct {
	o         Options
	addresses []string      // of the ensemble's servers; nil: the connection is the caller's
	plaintext bool          // a password is sent without TLS, as far as we know
	preparing chan struct{} // full while a goroutine prepares the connection

	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	authenticated *zk.Conn // it has the credentials; guarded by preparing

	tending    sync.Once    // starts tend
	watching   sync.Mutex   // locked while watchAll runs
	containers sync.RWMutex // read-locked to create one, locked to close the connection

	mu       sync.Mutex
	conn     *zk.Conn      // nil: not made, or given up
	prepared time.Time     // when the connection became usable; zero: not yet
	tick     time.Duration // the servers' tickTime; 0: not known yet
	leave    func()        // closes the latest connection of our own to a server; nil: the connection is the caller's
	pending  int           // requests without an answer
	heard    time.Time     // the last answer while requests were pending, or the first of them was sent
	observed time.Time     // when the connection's session was last observed, handshakes aside
	down     time.Time     // when the caller's connection was first found closed; zero: a look since then found it otherwise
	session  session
	claims   map[string]*claim          // by prefix, which has the name, the mode and the owner
	watches  map[string]<-chan zk.Event // of what waiters wait for, by path
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
		RemovalNotice: func(time.Duration) time.Duration { return 500 * time.Millisecond },
	}
}

// Capabilities implements driver.Backend.
func (b *Backend) Capabilities() driver.Capabilities { return capabilities(b.o.TTL) }

var errClosed = errors.New("the backend is closed")

// Close implements driver.Backend. It ends the backend's own session, and with it all claims. On a caller's connection, claims that the client
// could not release end with that connection's session.
func (b *Backend) Close() error {
	b.mu.Lock()
	b.cancel()
	conn := b.conn
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second) // the server may not answer
	defer cancel()
	_, _ = inTime(ctx, driver.ErrUnavailable, func() (any, error) {
		if b.addresses != nil && conn != nil {
			b.hangUp(conn)
		}
		b.watching.Lock() // when watchAll has returned
		defer b.watching.Unlock()
		return nil, nil
	})
	return nil
}
