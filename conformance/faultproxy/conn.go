package faultproxy

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

const (
	chunkSize = 64 << 10
	queueLen  = 64 // chunks on their way in each direction, before the peer's own buffers fill
	// calmTime is how long a server must say nothing until a request whose reply is dropped counts as carried out. What comes first may be
	// no reply to it: HTTP/2 has pings, window updates and other streams' replies.
	calmTime = 200 * time.Millisecond
	// drainTime bounds how long a server that was hung up on may take to read what it was sent and close.
	drainTime = 2 * time.Second
)

// chunk is what one Read returned.
type chunk struct {
	data []byte
	err  error
	due  time.Time // not to be delivered earlier; zero: now
}

// conn is one client's connection and the one dialled for it. Each direction has a reader, which keeps reading while a
// fault holds the bytes back, and a writer, which the faults act on.
type conn struct {
	p      *Proxy
	ctx    context.Context // ends when the connection is killed
	cancel context.CancelFunc
	client *net.TCPConn

	// Guarded by p.mu.
	server     *net.TCPConn // nil until dialled
	clientDone bool         // the client has closed its side, and that has been forwarded
	robbed     bool         // lost replies in the black hole
	sprung     []*trap      // what its requests fell into; from then on no reply is delivered
	doomed     bool         // to be hung up on as soon as a reply has come
	swallowed  bool         // a reply has come since a trap was sprung
	hungUp     bool         // the client's side is closed, the server's is being drained
	calm       *time.Timer  // closes the server's side; set when hungUp is
}

// run lives as long as the connection.
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
	if c.ctx.Err() != nil { // killed just now, which could not close what it did not know
		_ = c.server.Close()
		return false
	}
	return true
}

// await blocks until ok, which is called with p.mu held, and reports false if c was killed instead.
func (c *conn) await(ok func() bool) bool {
	for {
		c.p.mu.Lock()
		ready, changed := ok(), c.p.changed
		c.p.mu.Unlock()
		if ready || c.ctx.Err() != nil {
			return c.ctx.Err() == nil
		}
		select {
		case <-changed:
		case <-c.ctx.Done():
		}
	}
}

// pump gives what is read from src to deliver, when it is due and nothing is frozen, and the error that ended the
// stream to end. deliver returns false to stop early.
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
		if !c.await(func() bool { return !c.p.faults.frozen || c.hungUp }) || len(next.data) > 0 && !deliver(next.data) {
			return
		}
		if next.err != nil {
			end(next.err)
			return
		}
	}
}

// read puts what src sends into queue, until src ends or the connection is killed.
func (c *conn) read(src *net.TCPConn, queue chan<- chunk) {
	buf := make([]byte, chunkSize)
	for {
		n, err := src.Read(buf)
		next := chunk{data: append([]byte(nil), buf[:n]...), err: err}
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

// request forwards one request to the server, unless it falls into a trap that forbids it. It returns false when no more
// requests are wanted.
func (c *conn) request(data []byte) bool {
	do, refused := forward, false
	c.p.locked(func() {
		if refused = c.p.faults.cut || c.hungUp; refused { // SeverAfter spares this connection, and nothing else gets through
			return
		}
		if t := c.p.faults.spring(data); t != nil {
			do = t.act
			c.sprung = append(c.sprung, t) // before the request is out: no reply can slip past
			c.p.signal()                   // a close that the black hole hides may be heard now
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
	case do != forward && c.swallowed:
		c.hangUp(calmTime)
	case do != forward:
		c.doomed = true
	}
	return !c.hungUp
}

// reply forwards what the server sent to the client, unless a fault swallows it.
func (c *conn) reply(data []byte) bool {
	var swallowed bool
	c.p.locked(func() { swallowed = c.swallow() })
	if swallowed {
		return true
	}
	_, err := c.client.Write(data) // without p.mu: a client that does not read must not stop the proxy
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if err != nil && !c.hungUp {
		c.kill()
		return false
	}
	return true
}

// swallow reports that a reply is not to be delivered, and does what follows from its having come. p.mu is held.
func (c *conn) swallow() bool {
	if len(c.sprung) == 0 {
		c.robbed = c.robbed || c.p.faults.blackhole
		return c.p.faults.blackhole
	}
	c.swallowed = true
	if c.doomed {
		c.hangUp(calmTime)
	}
	return true
}

// requestsEnd passes on that the client has closed.
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
		c.p.signal()
	}
}

// repliesEnd passes on that the server has closed. In the black hole that is not heard, unless nobody listens any more.
func (c *conn) repliesEnd(err error) {
	if !c.await(func() bool {
		hidden := c.p.faults.blackhole && !c.clientDone && len(c.sprung) == 0
		c.robbed = c.robbed || hidden
		return !hidden
	}) {
		return
	}
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if len(c.sprung) > 0 || !errors.Is(err, io.EOF) {
		c.kill()
		return
	}
	_ = c.client.CloseWrite()
}

// hangUp closes the client's side, and the server's when that has said nothing for calm: a server may drop what it has not begun when it sees the
// end of the stream. Its replies are discarded, and drainTime later its side is closed anyhow. p.mu is held.
func (c *conn) hangUp(calm time.Duration) {
	switch {
	case c.ctx.Err() != nil:
	case c.hungUp:
		c.calm.Reset(calm)
	default:
		c.hungUp = true
		_ = c.client.Close()
		_ = c.server.SetReadDeadline(time.Now().Add(drainTime))
		c.calm = time.AfterFunc(calm, func() { c.p.locked(c.closeServer) })
		c.p.signal()
	}
}

// closeServer tells the server that no more will come. Gently, since a hard close could make it drop what it has not read yet. p.mu is held.
func (c *conn) closeServer() {
	_ = c.server.CloseWrite()
	c.fire()
}

// kill closes both sides at once. p.mu is held. Further calls do nothing.
func (c *conn) kill() {
	c.cancel()
	_ = c.client.Close()
	if c.server != nil {
		_ = c.server.Close()
	}
	delete(c.p.conns, c)
}

// fire tells those who set the traps that it is done. p.mu is held.
func (c *conn) fire() {
	for _, t := range c.sprung {
		t.fired.Do(func() {
			if t.event.left.Add(-1) == 0 {
				close(t.event.done)
			}
		})
	}
}
