package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockport/lockport/internal/session"
)

// conn is one session at the server, as the engine wants it. What concerns locks is asked past the client library, where the wire is plain; who asks reads
// the answer. For the rest, the library's connection, which blocks whoever asks, belongs to one goroutine, so that a caller whose context ends can leave
// while an answer is awaited.
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
	pruning  atomic.Bool // it is about to do so, when nobody waits for it

	direct    bool          // what concerns locks can be asked past the client library
	statement []byte        // that is asked, or the last one
	asked     []*session.Op // by it
	asker     asker
	answered  func(error) // hasAnswered
}

// sqlConn is what is used of the client library's connection.
type sqlConn interface {
	driver.Conn
	driver.QueryerContext
	driver.ExecerContext
	driver.Pinger
}

var _ session.Conn = adapted{}

// job is one request of the engine's.
type job struct {
	work  func() error // an error: the connection has ended, or must
	block bool         // it waits in the server's queue
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
	c.carry(ctx, ops, done, false)
}

// Wait implements session.Conn.
func (c *conn) Wait(ctx context.Context, op *session.Op, done func(error)) {
	c.carry(ctx, []*session.Op{op}, done, true)
}

// carry carries out ops.
func (c *conn) carry(ctx context.Context, ops []*session.Op, done func(error), block bool) {
	if c.direct && !c.pruning.Load() && concernLocks(ops) {
		c.askLocks(ctx, ops, done, block)
		return
	}
	work := func() error { return c.do(ops) }
	if block {
		work = func() error { return c.waitFor(ops[0]) }
	}
	c.hand(ctx, &job{work: work, block: block, done: done, over: make(chan struct{})})
}

// hand has the session's goroutine do j, and returns when that is done or ctx ends.
func (c *conn) hand(ctx context.Context, j *job) {
	if !c.submit(j) {
		return
	}
	select {
	case <-j.over:
		j.done(j.err)
	case <-ctx.Done():
		if j.left.Swap(true) { // it is done this very moment
			<-j.over
			j.done(j.err)
		}
	}
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

// carryOut does the job, and tells whoever waits.
func (c *conn) carryOut(j *job) {
	if !j.block {
		c.watchdog.Reset(c.silence)
	}
	j.err = j.work()
	c.watchdog.Stop()
	if j.err != nil {
		j.err = c.end(j.err)
	}
	c.pruning.Store(c.drawn >= pruneEvery)
	if j.left.Swap(true) {
		j.done(j.err)
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
			err = c.locks(ops[:n], "0")
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
