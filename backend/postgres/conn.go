package postgres

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/lockport/lockport/internal/session"
)

// conn is one session of ours at the server, on a connection that was taken out of pgx's hands. While nothing is asked a goroutine of its own reads from the
// socket, so that the end of the session, or a notification, is noticed at once: see session.Line. What is asked is in ask.go. It implements session.Conn.
type conn struct {
	server *server
	events session.Events
	ended  func(error)
	socket net.Conn
	front  *pgproto3.Frontend // reads from the socket, for whose turn it is
	rows   answer             // what has come of the statement under way, for the same
	pid    int64              // of the server's process
	id     string

	line    session.Line // its mutex guards what follows
	buf     []byte       // what is about to be sent
	steps   []step       // statements, whose answers come in this order
	next    int          // of steps: the one whose answer comes next
	left    int          // statements of the flight under way whose answers have not come
	blocks  bool         // that is a Wait
	held    map[session.Key]bool
	awaited map[session.Key]bool

	sorted []*session.Op        // for encode, as are the next: used again and again
	seen   map[session.Key]bool // keys
	args   [3][]int64
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

// Do implements session.Conn. All ops go out in one write.
func (c *conn) Do(ctx context.Context, ops []*session.Op, done func(error)) {
	c.ask(ops, session.Flight{Context: ctx, Done: done, Patience: c.server.ttl})
}

// Wait implements session.Conn. It goes on as long as it takes, but in turns.
func (c *conn) Wait(ctx context.Context, op *session.Op, done func(error)) {
	c.ask([]*session.Op{op}, session.Flight{Context: ctx, Done: done, Patience: waitLockTimeout + c.server.ttl, Blocks: true})
}

// ask sends ops. The server answers within the TTL, after which it may have ended the session.
func (c *conn) ask(ops []*session.Op, f session.Flight) {
	c.line.Lock()
	err := c.line.Ended()
	c.buf, c.left, c.blocks = c.buf[:0], 0, f.Blocks
	if err == nil {
		c.encode(ops)
	}
	if c.left == 0 { // it has ended, or each was refused here
		c.line.Unlock()
		f.Done(err)
		return
	}
	c.line.Fly(f, c.buf)
}

// end ends the session, and tells of it.
func (c *conn) end(err error) {
	if c.line.End(err, c.forget) {
		go c.ended(err)
	}
}

// forget forgets what lived on the session. The mutex is held.
func (c *conn) forget() {
	c.server.used.Add(-int64(len(c.held) + len(c.awaited)))
	c.held, c.awaited = nil, nil
}
