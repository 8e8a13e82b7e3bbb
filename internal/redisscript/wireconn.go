package redisscript

import (
	"bufio"
	"net"
	"syscall"
	"time"
)

const (
	// restUnchecked is for how long after a call began the server is taken to be there still.
	restUnchecked = time.Millisecond
	// restDirect is how long after that a connection is left to go-redis, which knows when one has been idle for too long.
	restDirect = time.Second
)

// wireConn is the connection of a wire. A deadline that go-redis sets does not undo an interruption.
type wireConn struct {
	net.Conn
	wire *wire
	in   *bufio.Reader // past go-redis
	peek *peek         // nil: the system, or TLS, does not let us

	// Guarded by the wire's mutex.
	expires  time.Time // zero: never
	used     time.Time // when the last call began
	deadline bool      // one is set
}

// newWireConn wraps conn. outer is what go-redis is given.
func newWireConn(w *wire, conn net.Conn) (c *wireConn, outer net.Conn) {
	c = &wireConn{Conn: conn, wire: w, in: bufio.NewReader(conn)}
	if life := w.options.ConnMaxLifetime; life > 0 {
		c.expires = time.Now().Add(life)
	}
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return c, c
	}
	if raw, err := sc.SyscallConn(); err == nil {
		c.peek = newPeek(raw)
	}
	return c, systemConn{c, sc}
}

// systemConn is a wireConn by which go-redis sees, before it sends, that the server has closed. One of TLS cannot tell, and must not pretend to:
// go-redis would take it for closed.
type systemConn struct {
	*wireConn
	syscall.Conn
}

func (c *wireConn) write(b []byte) error {
	_, err := c.Conn.Write(b)
	return err
}

// surplus is an error if more has come than was asked for: it would be taken for the answers to later calls.
func (c *wireConn) surplus() error {
	if c.in.Buffered() > 0 {
		return errProtocol
	}
	return nil
}

// fit says that the connection can be used past go-redis. After a server that has closed it, the outcome of a call would be unknown. The mutex is
// held.
func (c *wireConn) fit(now time.Time) bool {
	if c.deadline {
		c.deadline = false
		_ = c.Conn.SetDeadline(time.Time{})
	}
	rest := now.Sub(c.used)
	if rest > restDirect || !c.expires.IsZero() && now.After(c.expires) {
		return false
	}
	return rest <= restUnchecked || c.peek == nil || c.peek.quiet()
}

// until sets a deadline for the call under way. The mutex is held.
func (c *wireConn) until(end time.Time) {
	if c.wire.interrupted {
		end = past
	}
	c.deadline = true
	_ = c.Conn.SetDeadline(end)
}

// past is a deadline that has passed.
var past = time.Unix(1, 0)

func (c *wireConn) set(set func(time.Time) error, t time.Time) error {
	c.wire.mu.Lock()
	defer c.wire.mu.Unlock()
	c.deadline = true
	if c.wire.interrupted {
		t = past
	}
	return set(t)
}

// SetDeadline implements net.Conn.
func (c *wireConn) SetDeadline(t time.Time) error { return c.set(c.Conn.SetDeadline, t) }

// SetReadDeadline implements net.Conn.
func (c *wireConn) SetReadDeadline(t time.Time) error { return c.set(c.Conn.SetReadDeadline, t) }

// SetWriteDeadline implements net.Conn.
func (c *wireConn) SetWriteDeadline(t time.Time) error { return c.set(c.Conn.SetWriteDeadline, t) }

// Close implements net.Conn.
func (c *wireConn) Close() error {
	c.wire.mu.Lock()
	delete(c.wire.conns, c)
	if c.wire.ready == c {
		c.wire.ready = nil
	}
	c.wire.mu.Unlock()
	return c.Conn.Close()
}
