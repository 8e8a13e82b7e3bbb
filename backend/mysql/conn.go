package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	lockdriver "github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/session"
)

// conn is one session at the server, as the engine wants it. The client library's connection, which blocks whoever asks, belongs to one goroutine,
// so that a caller whose context ends can leave while an answer is awaited.
type conn struct {
	server *server
	wire   *wire
	sql    sqlConn
	thread uint64 // the session's number at the server
	marker string // a lock that it has for as long as it lives, named like no other

	mu       sync.Mutex
	open     bool // it is set up: its end is told
	gone     bool // nobody takes jobs any more
	jobs     chan *job
	closing  chan struct{} // closed when the connection has ended
	close    sync.Once
	why      error // it has
	silence  time.Duration
	watchdog *time.Timer // ends a session whose answer does not come
	drawn    int         // tokens since rows were last pruned
}

// sqlConn is what is used of the client library's connection.
type sqlConn interface {
	driver.Conn
	driver.QueryerContext
	driver.ExecerContext
	driver.Pinger
}

var _ session.Conn = (*conn)(nil)

// job is one request of the engine's.
type job struct {
	ops   []*session.Op
	block bool // it waits in the server's queue
	err   error
	done  func(error)
	left  atomic.Bool   // nobody waits for it any more, or it is done
	over  chan struct{} // closed when it is done and somebody waited
}

// ID implements session.Conn: the session's number, and its marker.
func (c *conn) ID() string { return fmt.Sprintf("%d/%s", c.thread, c.marker) }

// Silence implements session.Conn.
func (c *conn) Silence() time.Duration { return c.silence }

// Close implements session.Conn.
func (c *conn) Close() { c.end(errClosed) }

// end ends the connection because of why, and returns why it has ended: that, or what ended it before.
func (c *conn) end(why error) error {
	c.close.Do(func() {
		c.why = why
		close(c.closing)
	})
	_ = c.wire.Close()
	return c.why
}

// Do implements session.Conn.
func (c *conn) Do(ctx context.Context, ops []*session.Op, done func(error)) {
	j := &job{ops: ops, done: done, over: make(chan struct{})}
	if !c.submit(j) {
		return
	}
	select {
	case <-j.over:
		done(j.err)
	case <-ctx.Done():
		if j.left.Swap(true) { // it is done this very moment
			<-j.over
			done(j.err)
		}
	}
}

// Wait implements session.Conn.
func (c *conn) Wait(op *session.Op, done func(error)) {
	j := &job{ops: []*session.Op{op}, block: true, done: done}
	j.left.Store(true)
	c.submit(j)
}

// submit gives the job to the session's goroutine. false: that has ended, and done was called.
func (c *conn) submit(j *job) bool {
	c.mu.Lock()
	if c.gone {
		c.mu.Unlock()
		j.done(c.why)
		return false
	}
	c.jobs <- j // there is room: the one before is done
	c.mu.Unlock()
	return true
}

var errClosed = errors.New("the session is closed")

// run is the session's goroutine.
func (c *conn) run() {
	defer func() { _ = c.sql.Close() }()
	for {
		select {
		case j := <-c.jobs:
			c.carryOut(j)
		case <-c.closing:
			c.mu.Lock()
			c.gone = true
			c.mu.Unlock()
			select { // one that came at the same time
			case j := <-c.jobs:
				c.carryOut(j)
			default:
			}
			return
		}
	}
}

// carryOut does the job, and tells whoever waits, or else a goroutine of its own, since done may ask for the next.
func (c *conn) carryOut(j *job) {
	if j.block {
		j.err = c.waitFor(j.ops[0])
	} else {
		c.watchdog.Reset(c.silence)
		j.err = c.do(j.ops)
		c.watchdog.Stop()
	}
	if j.err != nil {
		j.err = c.end(j.err)
	}
	if j.left.Swap(true) {
		go j.done(j.err)
	} else {
		close(j.over)
	}
	c.prune()
}

// do carries out ops in their order. An error: the connection has ended, or must, and nothing is known.
func (c *conn) do(ops []*session.Op) error {
	for len(ops) > 0 {
		n := 0 // of those that go together
		for n < len(ops) && ops[n].Kind != session.End && ops[n].Kind != session.Ask {
			n++
		}
		var err error
		switch {
		case n > 0:
			err = c.locks(ops[:n])
		case ops[0].Kind == session.End:
			n, err = 1, c.finish(ops[0])
		default:
			n, err = 1, c.ask(ops[0])
		}
		if err != nil {
			return err
		}
		ops = ops[n:]
	}
	return nil
}

// locks carries out what concerns locks in one statement, then draws the tokens of those that were won in another: a token must be drawn when it is
// certain that the lock is ours.
func (c *conn) locks(ops []*session.Op) error {
	var list strings.Builder
	var asked, won []*session.Op
	list.WriteString("SELECT ")
	for _, op := range ops {
		var function, rest string
		switch op.Kind {
		case session.Try:
			function, rest = "GET_LOCK(", ",0)"
		case session.Free:
			function, rest = "RELEASE_LOCK(", ")"
		default: // Ping, or Await and Leave: this server tells nobody
			continue
		}
		if err := c.server.checkKey(op.Key); err != nil {
			op.Err = err
			continue
		}
		if len(asked) > 0 {
			list.WriteByte(',')
		}
		list.WriteString(function)
		list.WriteString(literal(op.Key))
		list.WriteString(rest)
		asked = append(asked, op)
	}
	if len(asked) == 0 {
		return c.sql.Ping(context.Background())
	}
	row, err := c.row(list.String())
	if err != nil {
		return c.refused(asked, err)
	}
	for i, op := range asked {
		op.OK = isOne(row[i])
		if op.OK && op.Kind == session.Try {
			won = append(won, op)
		}
	}
	return c.draw(won)
}

// question is what an Ask asks: one statement.
type question struct {
	query string
	rows  [][]driver.Value // the answer
}

// ask puts a question of the backend's own.
func (c *conn) ask(op *session.Op) error {
	q := op.Ask.(*question)
	rows, err := c.rows(q.query)
	if number(err) != 0 {
		op.Err = classify(context.Background(), err)
		return nil
	}
	q.rows, op.OK = rows, err == nil
	return err
}

// refused draws the conclusions from a list of functions of which the server has said that it fails: some may have been carried out before it
// did. Locks that may have been taken are given back; whether something was freed is not known, which ends the session.
func (c *conn) refused(asked []*session.Op, err error) error {
	if number(err) == 0 {
		return err
	}
	for _, op := range asked {
		if op.Kind != session.Try {
			return err
		}
	}
	return c.giveBack(asked, err)
}

// giveBack frees the locks of tries that have failed because of why, all of them or the session ends.
func (c *conn) giveBack(tries []*session.Op, why error) error {
	var list []string
	for _, op := range tries {
		list = append(list, "RELEASE_LOCK("+literal(op.Key)+")")
	}
	if _, err := c.row("SELECT " + strings.Join(list, ",")); err != nil {
		return err
	}
	why = classify(context.Background(), why)
	for _, op := range tries {
		op.OK, op.Err = false, why
	}
	return nil
}

// forever is for how long a blocked session waits, in seconds: MariaDB takes a negative time for an error.
const forever = "1000000000"

// waitFor carries out a Try that waits in the server's queue.
func (c *conn) waitFor(op *session.Op) error {
	if err := c.server.checkKey(op.Key); err != nil {
		op.Err = err
		return nil
	}
	row, err := c.row("SELECT GET_LOCK(" + literal(op.Key) + "," + forever + ")")
	switch {
	case number(err) != 0: // such as: it was interrupted
		return c.giveBack([]*session.Op{op}, err)
	case err != nil:
		return err
	}
	c.watchdog.Reset(c.silence)
	defer c.watchdog.Stop()
	if op.OK = isOne(row[0]); op.OK {
		return c.draw([]*session.Op{op})
	}
	op.Err = fmt.Errorf("%w: the server has ended the wait", lockdriver.ErrUnavailable)
	return nil
}

// row asks for one row.
func (c *conn) row(query string) ([]driver.Value, error) {
	rows, err := c.rows(query)
	if err != nil {
		return nil, err
	}
	if len(rows) != 1 {
		return nil, fmt.Errorf("the server answered with %d rows instead of one", len(rows))
	}
	return rows[0], nil
}

// rows asks a question. The context of no caller reaches the client library, which would close the connection, and with it all locks.
func (c *conn) rows(query string) (all [][]driver.Value, err error) {
	rows, err := c.sql.QueryContext(context.Background(), query, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for {
		row := make([]driver.Value, len(rows.Columns()))
		switch err := rows.Next(row); {
		case err == io.EOF:
			return all, nil
		case err != nil:
			return nil, err
		}
		for i, v := range row {
			if b, ok := v.([]byte); ok { // the client library's own buffer
				row[i] = string(b)
			}
		}
		all = append(all, row)
	}
}

// isOne reports that the server said 1, not 0 and not NULL.
func isOne(v driver.Value) bool { n, ok := v.(int64); return ok && n == 1 }
