package faultproxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

const (
	chunkSize = 64 << 10
	queueLen  = 64 // chunks under way in each direction before the peer's buffers fill
	// calmTime is how long a server must be silent before a request whose reply is dropped counts as carried out. The first bytes
	// need not be the reply: HTTP/2 has pings, window updates and other streams' replies.
	calmTime = 200 * time.Millisecond
	// drainTime limits how long a server may take to read its input and close after its client has hung up.
	drainTime = 2 * time.Second
)

// chunk is the result of one Read.
type chunk struct {
	data []byte
	err  error
	due  time.Time // earliest delivery; zero: now
}

// conn is a client's connection and the connection to the server that serves it. Each direction has a reader, which keeps reading
// while a fault holds bytes back, and a writer, which the faults affect.
type conn struct {
	p      *Proxy
	ctx    context.Context // ends when the connection is killed
	cancel context.CancelFunc
	client *net.TCPConn

	// Guarded by p.mu.
	server     *net.TCPConn // nil until dialed
	clientDone bool         // the client closed its side, and the server was told
	silenced   bool         // BlackholeReplies held something
	sprung     []*trap      // traps that its requests sprang; afterwards no reply is delivered
	doomed     bool         // hang up when a reply comes
	hungUp     bool         // the client's side is closed, the server's is draining
	calm       *time.Timer  // closes the server's side; set when hungUp is
}

// run serves the connection until it ends.
func (c *conn) run() {
	defer c.p.locked(func() { c.kill(); c.fire() })
	if !c.await(func() bool { return !c.p.faults.frozen }) || !c.dial() {
		return
	}
	var directions sync.WaitGroup
	directions.Go(func() { c.pump(c.client, c.request, c.requestsEnd) })
	directions.Go(func() { c.pump(c.server, c.reply, c.repliesEnd) })
	directions.Wait()
}

func (c *conn) dial() bool {
	var target string
	c.p.locked(func() { target = c.p.target })
	server, err := new(net.Dialer).DialContext(c.ctx, "tcp", target)
	if err != nil {
		return false
	}
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.server = server.(*net.TCPConn)
	if c.ctx.Err() != nil { // kill came first, and could not close server
		_ = c.server.Close()
		return false
	}
	return true
}

// await blocks until ok returns true. It returns false if c is killed. ok is called with p.mu held.
func (c *conn) await(ok func() bool) bool {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	for c.ctx.Err() == nil && !ok() {
		c.p.changed.Wait()
	}
	return c.ctx.Err() == nil
}

// held reports whether a fault holds what src sent. p.mu is held.
func (c *conn) held(src *net.TCPConn) bool {
	silent := src == c.server && c.p.faults.blackhole && !c.clientDone && len(c.sprung) == 0
	c.silenced = c.silenced || silent
	return (silent || c.p.faults.frozen) && !c.hungUp
}

// pump passes the bytes from src to deliver when they are due and no fault holds them, and then the error that ended the stream to
// end. deliver returns false to stop pump.
func (c *conn) pump(src *net.TCPConn, deliver func([]byte) bool, end func(error)) {
	queue := make(chan chunk, queueLen)
	var reader sync.WaitGroup
	defer reader.Wait()
	reader.Go(func() { c.read(src, queue) })
	for {
		var next chunk
		select {
		case next = <-queue:
		case <-c.ctx.Done():
			return
		}
		if !next.due.IsZero() {
			select {
			case <-time.After(time.Until(next.due)):
			case <-c.ctx.Done():
				return
			}
		}
		if !c.await(func() bool { return !c.held(src) }) || len(next.data) > 0 && !deliver(next.data) {
			return
		}
		if next.err != nil {
			end(next.err)
			return
		}
	}
}

// read queues the bytes from src until src ends or the connection is killed.
func (c *conn) read(src *net.TCPConn, queue chan<- chunk) {
	buf := make([]byte, chunkSize)
	for {
		n, err := src.Read(buf)
		next := chunk{data: bytes.Clone(buf[:n]), err: err}
		c.p.locked(func() {
			if n > 0 && src == c.client {
				c.p.requests++
			}
			if c.p.faults.delay > 0 {
				next.due = time.Now().Add(c.p.faults.delay)
			}
		})
		select {
		case queue <- next:
		case <-c.ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// request forwards a request to the server, unless a fault forbids it. It returns false to stop the direction.
func (c *conn) request(data []byte) bool {
	do, refused := forward, false
	c.p.locked(func() {
		if refused = c.p.faults.cut || c.hungUp; refused { // SeverAfter keeps this connection, but nothing else may pass
			return
		}
		if t := c.p.faults.spring(data); t != nil {
			do = t.act
			c.sprung = append(c.sprung, t) // before the request is sent, so no reply can pass
			c.doomed = c.doomed || do != cutAfter
			c.p.changed.Broadcast() // held replies are dropped now
		}
		if do == severAfter {
			c.p.faults.cut = true
			c.p.killAll(c)
		}
	})
	if refused {
		return true
	}
	_, err := c.server.Write(data)
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	switch {
	case c.hungUp:
	case err != nil:
		c.kill()
		return false
	case do == cutAfter:
		c.hangUp(0)
	}
	return !c.hungUp
}

// reply forwards bytes from the server to the client, unless a fault drops them.
func (c *conn) reply(data []byte) bool {
	var dropped bool
	c.p.locked(func() {
		if dropped = len(c.sprung) > 0; c.doomed {
			c.hangUp(calmTime)
		}
	})
	if dropped {
		return true
	}
	_, err := c.client.Write(data) // without p.mu: a client that does not read must not block the proxy
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if err != nil && !c.hungUp {
		c.kill()
		return false
	}
	return true
}

// requestsEnd closes the server's side when the client has closed.
func (c *conn) requestsEnd(err error) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	switch {
	case c.hungUp:
	case !errors.Is(err, io.EOF):
		c.kill()
	default:
		_ = c.server.CloseWrite()
		c.clientDone = true
		c.p.changed.Broadcast()
	}
}

// repliesEnd closes the client's side when the server has closed.
func (c *conn) repliesEnd(err error) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if len(c.sprung) > 0 || !errors.Is(err, io.EOF) {
		c.kill()
		return
	}
	_ = c.client.CloseWrite()
}

// hangUp closes the client's side, and the server's when that has been silent for calm: a server that sees the end of the stream
// may drop a request that it has not begun. Replies are discarded. After drainTime the server's side closes anyway. p.mu is held.
func (c *conn) hangUp(calm time.Duration) {
	switch {
	case c.ctx.Err() != nil:
	case c.hungUp:
		c.calm.Reset(calm)
	default:
		c.hungUp = true
		_ = c.client.Close()
		_ = c.server.SetReadDeadline(time.Now().Add(drainTime))
		// The server gets an end of stream: a hard close could make it drop unread requests.
		c.calm = time.AfterFunc(calm, func() { c.p.locked(func() { _ = c.server.CloseWrite(); c.fire() }) })
		c.p.changed.Broadcast()
	}
}

// kill closes both sides at once. p.mu is held. Further calls do nothing.
func (c *conn) kill() {
	c.cancel()
	_ = c.client.Close()
	if c.server != nil {
		_ = c.server.Close()
	}
	delete(c.p.conns, c)
	c.p.changed.Broadcast()
}

// fire reports the sprung traps to their setters. p.mu is held.
func (c *conn) fire() {
	for _, t := range c.sprung {
		t.fired()
	}
}
