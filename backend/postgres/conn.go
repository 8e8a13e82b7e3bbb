package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/lockport/lockport/internal/session"
)

// conn is one session of ours at the server, on a connection that was taken out of pgx's hands. While nothing is asked a goroutine of its own reads from the
// socket, so that the end of the session, or a notification, is noticed at once: see read.go. What is asked is in ask.go. It implements session.Conn.
type conn struct {
	server *server
	events session.Events
	socket net.Conn
	front  *pgproto3.Frontend // reads from the socket, for who has set reading
	rows   answer             // what has come of the statement under way, for the same
	pid    int64              // of the server's process
	id     string

	landed chan struct{} // tells who waits in Do that the reader has landed its flight
	watch  *time.Timer   // looks whether an answer is overdue
	attend *time.Timer   // looks after a socket that has been left alone, or whose reader should go

	mu        sync.Mutex
	buf       []byte    // what is about to be sent
	steps     []step    // statements, whose answers come in this order
	next      int       // of steps: the one whose answer comes next
	flight    flight    // the Do or Wait under way, or the last one
	answered  time.Time // when the last one landed
	watching  bool      // watch is running
	attending bool      // attend is running
	reading   bool      // somebody reads from the socket, and has front and rows
	ended     error     // why the session has ended; nil: it lives
	unsaid    []saying  // what those who look at locks are to be told
	saying    bool      // some of it is on its way
	held      map[session.Key]holder
	awaited   map[session.Key]bool
}

// flight is one Do, or one Wait.
type flight struct {
	ctx     context.Context // of a Do
	done    func(error)
	left    int // statements whose answers have not come; 0: it has landed
	sent    time.Time
	reads   bool  // who called Do reads its answers, and calls done
	waiting bool  // who called Do waits for the reader, and calls done
	patient bool  // it is a Wait, which takes as long as it takes
	err     error // when it has landed
}

// holder is for whom this session has a key, for those who ask.
type holder struct {
	name, owner string
	token       uint64
	since       time.Time
}

var errClosed = errors.New("the session was closed")

// ID implements session.Conn: the process id at the server, and when that process began in microseconds since 1970.
func (c *conn) ID() string { return c.id }

// parseID takes apart what ID made.
func parseID(id string) (pid, began int64, ok bool) {
	p, b, _ := strings.Cut(id, "/")
	pid, err1 := strconv.ParseInt(p, 10, 32)
	began, err2 := strconv.ParseInt(b, 10, 64)
	return pid, began, err1 == nil && err2 == nil
}

// Silence implements session.Conn.
func (c *conn) Silence() time.Duration { return c.server.ttl }

// Close implements session.Conn.
func (c *conn) Close() { c.end(errClosed) }

// Do implements session.Conn. All ops go out in one write, which cannot block: what was sent before has been answered, so that the socket's
// buffer is empty.
func (c *conn) Do(ctx context.Context, ops []*session.Op, done func(error)) {
	reads, ok := c.launch(ops, flight{ctx: ctx, done: done, waiting: true})
	switch {
	case !ok:
		return
	case reads:
		c.readHere(ctx)
		return
	}
	select {
	case <-c.landed:
		done(c.flight.err)
	case <-ctx.Done():
		c.mu.Lock()
		inTime := !c.flight.waiting
		c.flight.waiting = false
		c.mu.Unlock()
		if inTime {
			<-c.landed
			done(c.flight.err)
		}
	}
}

// Wait implements session.Conn.
func (c *conn) Wait(op *session.Op, done func(error)) {
	c.launch([]*session.Op{op}, flight{done: done, patient: true})
}

// launch sends ops. ok is false if done was called. reads: the caller is to read the answers.
func (c *conn) launch(ops []*session.Op, f flight) (reads, ok bool) {
	f.sent = time.Now()
	c.mu.Lock()
	err := c.ended
	waited := c.flight.patient
	if err == nil {
		c.flight = f
		c.buf = c.buf[:0]
		c.encode(ops)
	}
	if err != nil || c.flight.left == 0 { // it has ended, or each was refused here
		c.mu.Unlock()
		f.done(err)
		return false, false
	}
	if !c.watching || waited {
		c.watching = true
		c.watch.Reset(c.patience(&f))
	}
	if !c.reading {
		c.reading = true
		if reads = f.waiting; reads {
			c.flight.reads, c.flight.waiting = true, false
			c.lookIn()
		} else {
			go c.read()
		}
	}
	_, err = c.socket.Write(c.buf)
	c.mu.Unlock()
	if err != nil {
		c.end(err)
	}
	return reads, true
}

// patience is within what time the server answers: the TTL, after which it may have ended the session; a Wait goes on as long as it takes,
// but in turns.
func (c *conn) patience(f *flight) time.Duration {
	if f.patient {
		return waitLockTimeout + c.server.ttl
	}
	return c.server.ttl
}

// overdue ends the session if the server has not answered in time.
func (c *conn) overdue() {
	c.mu.Lock()
	f := &c.flight
	patience := c.patience(f)
	asked := f.left > 0 && c.ended == nil
	left := time.Until(f.sent.Add(patience))
	c.watching = asked && left > 0
	if c.watching {
		c.watch.Reset(left)
	}
	c.mu.Unlock()
	if asked && left <= 0 {
		c.end(fmt.Errorf("the server has not answered for %v", patience))
	}
}

// end ends the session, and tells of it.
func (c *conn) end(err error) {
	c.mu.Lock()
	if c.ended != nil {
		c.mu.Unlock()
		return
	}
	c.ended = err
	c.watch.Stop()
	c.server.used.Add(-int64(len(c.held) + len(c.awaited)))
	c.held, c.awaited, c.unsaid = nil, nil, nil
	tell := func() {}
	if c.flight.left > 0 {
		c.flight.left = 0
		tell = c.land(err)
	}
	c.mu.Unlock()
	_ = c.socket.Close()
	tell()
	go c.events.Ended(err)
}

// land ends the flight. The mutex is held; what it returns is to be called without.
func (c *conn) land(err error) (tell func()) {
	c.flight.err, c.flight.ctx = err, nil
	switch {
	case c.flight.reads: // who reads will see
	case c.flight.waiting:
		c.flight.waiting = false
		c.landed <- struct{}{}
	default:
		done := c.flight.done
		return func() { go done(err) } // it may ask for more, and wait for what this goroutine is to read
	}
	return func() {}
}
