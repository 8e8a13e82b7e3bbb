package mysql

import (
	"context"
	"fmt"
	"strings"

	lockdriver "github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/session"
)

// concernLocks says that one statement carries out ops, or a ping.
func concernLocks(ops []*session.Op) bool {
	for _, op := range ops {
		if op.Kind == session.End || op.Kind == session.Ask {
			return false
		}
	}
	return true
}

// forever is for how long a blocked session waits, in seconds: MariaDB takes a negative time for an error.
const forever = "1000000000"

// end ends a function, with a name for its column: the server would give it that of all its text, and send it.
const end = ")a"

// appendLocks appends to buf one statement for what of ops concerns locks, and returns those. Others are a Ping, or Await and Leave: this server tells
// nobody. With none there is no statement. seconds is for how long a Try waits.
func (c *conn) appendLocks(buf []byte, ops []*session.Op, seconds string) (statement []byte, asked []*session.Op) {
	asked = c.asked[:0]
	for _, op := range ops {
		if op.Kind != session.Try && op.Kind != session.Free {
			continue
		}
		if err := c.server.checkKey(op.Key); err != nil {
			op.Err = err
			continue
		}
		if len(asked) == 0 {
			buf = append(buf, "SELECT "...)
		} else {
			buf = append(buf, ',')
		}
		if op.Kind == session.Try {
			buf = append(appendLiteral(append(buf, "GET_LOCK("...), op.Key), ',')
			buf = append(append(buf, seconds...), end...)
		} else {
			buf = append(appendLiteral(append(buf, "RELEASE_LOCK("...), op.Key), end...)
		}
		asked = append(asked, op)
	}
	return buf, asked
}

// locks carries out what concerns locks in one statement, then draws the tokens of those that were won in another: a token must be drawn when it is
// certain that the lock is ours.
func (c *conn) locks(ops []*session.Op, seconds string) error {
	statement, asked := c.appendLocks(c.statement[:0], ops, seconds)
	c.statement, c.asked = statement, asked
	if len(asked) == 0 {
		return c.sql.Ping(context.Background())
	}
	row, err := c.row(string(statement))
	if err != nil {
		return c.refused(asked, err)
	}
	for i, op := range asked {
		op.OK = isOne(row[i])
	}
	c.watchdog.Reset(c.silence) // which a wait has not
	return c.draw(won(asked))
}

// won is those of asked that have taken a lock. It has the place of asked.
func won(asked []*session.Op) []*session.Op {
	n := 0
	for _, op := range asked {
		if op.OK && op.Kind == session.Try {
			asked[n] = op
			n++
		}
	}
	return asked[:n]
}

// refused draws the conclusions from a list of functions of which the server has said that it fails: some may have been carried out before it
// did. Locks that may have been taken are given back; whether something was freed is not known, which ends the session.
func (c *conn) refused(asked []*session.Op, err error) error {
	if number(err) == 0 || len(asked) == 0 {
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

// waitFor carries out a Try that waits in the server's queue.
func (c *conn) waitFor(op *session.Op) error {
	if err := c.server.checkKey(op.Key); err != nil {
		op.Err = err
		return nil
	}
	err := c.locks([]*session.Op{op}, forever)
	if err == nil && op.Err == nil && !op.OK {
		op.Err = errWaitEnded
	}
	return err
}

var errWaitEnded = fmt.Errorf("%w: the server has ended the wait", lockdriver.ErrUnavailable)

// The commands of the protocol that we send ourselves. https://mariadb.com/kb/en/2-text-protocol/
const (
	commandQuery = 0x03
	commandPing  = 0x0e
)

// asker is who made the request of our own that is under way.
type asker struct {
	ctx   context.Context
	done  func(error)
	block bool
}

// askLocks is locks, or waitFor, past the client library and so without the session's goroutine: who asks reads the answer. What must follow goes to that.
func (c *conn) askLocks(ctx context.Context, ops []*session.Op, done func(error), block bool) {
	seconds, patience := "0", c.silence
	if block {
		seconds, patience = forever, 0
	}
	request, asked := c.appendLocks(append(c.statement[:0], 0, 0, 0, 0, commandQuery), ops, seconds)
	switch {
	case len(asked) == 0 && block: // refused here
		done(nil)
		return
	case len(asked) == 0:
		request[4] = commandPing
	}
	n := len(request) - 4
	request[0], request[1], request[2] = byte(n), byte(n>>8), byte(n>>16)
	c.statement, c.asked, c.asker = request, asked, asker{ctx, done, block}
	c.wire.ask(session.Flight{Context: ctx, Done: c.answered, Patience: patience, Blocks: block}, request, len(asked))
}

// hasAnswered draws the conclusions from the answer to a request of our own.
func (c *conn) hasAnswered(err error) {
	a, asked, r := c.asker, c.asked, &c.wire.reply
	c.asker = asker{}
	follow := func(work func() error) {
		c.hand(a.ctx, &job{work: work, done: a.done, over: make(chan struct{})})
	}
	switch {
	case err != nil:
		a.done(c.end(err))
		return
	case r.failed != nil:
		failed := r.failed
		follow(func() error { return c.refused(asked, failed) })
		return
	}
	for i, op := range asked {
		if op.OK = r.ones[i]; !op.OK && a.block {
			op.Err = errWaitEnded
		}
	}
	if won := won(asked); len(won) > 0 && !c.server.o.NoTokens {
		follow(func() error { return c.draw(won) })
		return
	}
	a.done(nil)
}
