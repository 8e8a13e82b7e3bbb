package redisscript

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// solo is a connection for calls that come one at a time: the goroutine that asks writes and reads itself, which saves two switches
// between goroutines, more than a local Redis takes for the script. Since the connection is known, the end of a context can
// interrupt the read. One call at a time may use it.
type solo struct {
	client *goredis.Client // with one connection

	mu          sync.Mutex
	conns       map[*soloConn]struct{}
	call        int             // counts the calls, and their ends
	ctx         context.Context // of the call under way; nil: none
	interrupted bool            // the call under way
	timer       *time.Timer     // looks whether there is one that takes long
	armed       bool
	unwatch     func() bool // ends the watch over the call under way; nil: it is not watched
}

// unwatched is for how long a call is not watched, since most end sooner and a watch costs more than they can afford. Calls return so
// much later than their contexts are cancelled; a deadline is kept by the socket itself.
const unwatched = 20 * time.Millisecond

// newSolo makes a solo with the settings of client, or nil if a connection of its own would not be as good: one that Sentinel finds is closed by
// go-redis when the master changes, but only in the client's own pool.
func newSolo(client Client) *solo {
	c, ok := client.(*goredis.Client)
	if !ok || c.Options().Addr == "FailoverClient" {
		return nil
	}
	s := &solo{conns: make(map[*soloConn]struct{})}
	o := *c.Options()
	dial := o.Dialer
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return s.add(conn), nil
	}
	o.PoolSize, o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns = 1, 0, 1, 1
	o.ContextTimeoutEnabled = true
	// The handlers of pushed messages are the client's own, and we need none.
	o.PushNotificationProcessor = nil
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	s.client = goredis.NewClient(&o)
	return s
}

// run sends cmd and reads its reply, until ctx ends.
func (s *solo) run(ctx context.Context, cmd *command) {
	s.begin(ctx)
	_ = s.client.Process(ctx, cmd) // the command has the error too
	s.end()
}

func (s *solo) begin(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.call++
	s.ctx = ctx
	switch {
	case ctx.Done() == nil || s.armed:
	case s.timer == nil:
		s.armed = true
		s.timer = time.AfterFunc(unwatched, s.watch)
	default:
		s.armed = true
		s.timer.Reset(unwatched)
	}
}

func (s *solo) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.call++
	s.ctx, s.interrupted = nil, false
	if s.unwatch != nil {
		s.unwatch()
		s.unwatch = nil
	}
}

// watch interrupts the call under way when its context ends.
func (s *solo) watch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed = false
	if s.ctx == nil || s.unwatch != nil {
		return
	}
	call := s.call
	s.unwatch = context.AfterFunc(s.ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.call == call {
			s.interrupted = true
			for c := range s.conns {
				_ = c.Conn.SetDeadline(past)
			}
		}
	})
}

// past is a deadline that has passed.
var past = time.Unix(1, 0)

func (s *solo) add(conn net.Conn) net.Conn {
	c := &soloConn{Conn: conn, solo: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[c] = struct{}{}
	return c
}

// close closes the connection.
func (s *solo) close() {
	s.mu.Lock()
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	_ = s.client.Close()
}

// soloConn is the connection. A deadline that go-redis sets does not undo an interruption.
type soloConn struct {
	net.Conn
	solo *solo
}

func (c *soloConn) set(set func(time.Time) error, t time.Time) error {
	c.solo.mu.Lock()
	defer c.solo.mu.Unlock()
	if c.solo.interrupted {
		t = past
	}
	return set(t)
}

// SetDeadline implements net.Conn.
func (c *soloConn) SetDeadline(t time.Time) error { return c.set(c.Conn.SetDeadline, t) }

// SetReadDeadline implements net.Conn.
func (c *soloConn) SetReadDeadline(t time.Time) error { return c.set(c.Conn.SetReadDeadline, t) }

// SetWriteDeadline implements net.Conn.
func (c *soloConn) SetWriteDeadline(t time.Time) error { return c.set(c.Conn.SetWriteDeadline, t) }

// SyscallConn implements syscall.Conn, by which go-redis sees before it sends that the server has closed.
func (c *soloConn) SyscallConn() (syscall.RawConn, error) {
	if sc, ok := c.Conn.(syscall.Conn); ok {
		return sc.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// Close implements net.Conn.
func (c *soloConn) Close() error {
	c.solo.mu.Lock()
	delete(c.solo.conns, c)
	c.solo.mu.Unlock()
	return c.Conn.Close()
}
