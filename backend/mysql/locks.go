package mysql

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/session"
)

// question makes one statement of what ops ask of the session, a function for each, in their order, and returns the ops that it asks. The others are Await
// and Leave, which this server does not have, and keys that it would mistake. A Ping asks for the session's own marker: a connection
// that something between here and the server has replaced is not taken for the session. wait is for how long a Try waits.
func (c *conn) question(ops []*session.Op, wait time.Duration) (query string, asked []*session.Op) {
	var b strings.Builder
	separator := "SELECT "
	for _, op := range ops {
		switch op.Kind {
		case session.Try, session.Free, session.Ping:
		default:
			continue
		}
		if op.Err = c.server.checkKey(op.Key); op.Err != nil {
			continue
		}
		b.WriteString(separator)
		separator = ","
		// The name of a column is sent back, so it is short.
		switch op.Kind {
		case session.Try:
			fmt.Fprintf(&b, "GET_LOCK(%s,%d)a", literal(op.Key), wait/time.Second)
		case session.Free:
			fmt.Fprintf(&b, "RELEASE_LOCK(%s)a", literal(op.Key))
		case session.Ping:
			fmt.Fprintf(&b, "IS_USED_LOCK('%s')=CONNECTION_ID()a", c.marker)
		}
		asked = append(asked, op)
	}
	return b.String(), asked
}

// locks carries out ops in one statement, then draws the tokens of the locks that were taken in another: a token must be drawn when it is certain
// that the lock is ours. An error: nothing is known, and the session must end.
func (c *conn) locks(ctx context.Context, ops []*session.Op, wait time.Duration) error {
	query, asked := c.question(ops, wait)
	if len(asked) == 0 {
		return nil
	}
	r, err := c.row(ctx, query)
	if err != nil {
		return c.refused(ctx, asked, err)
	}
	var won []*session.Op
	for i, op := range asked {
		op.OK = r.isOne(i)
		switch {
		case op.Kind == session.Ping && !op.OK:
			return errReplaced
		case op.Kind == session.Try && op.OK:
			won = append(won, op)
		case op.Kind == session.Try && r.isNull(i):
			op.Err = errWaitEnded
		}
	}
	return c.draw(ctx, won)
}

var (
	errReplaced  = errors.New("another session answers")
	errWaitEnded = fmt.Errorf("%w: the server has ended the wait", driver.ErrUnavailable)
)

// refused draws the conclusions from a statement of which the server says that it fails: it may have carried out some of the functions before. Locks that it may
// have taken are given back; whether it has released something is not known, which ends the session.
func (c *conn) refused(ctx context.Context, asked []*session.Op, err error) error {
	if number(err) == 0 {
		return err
	}
	var tries []*session.Op
	for _, op := range asked {
		switch op.Kind {
		case session.Free:
			return err
		case session.Try:
			tries = append(tries, op)
		default:
			op.Err = classify(ctx, err)
		}
	}
	return c.giveBack(ctx, tries, err)
}

// giveBack releases the locks of tries that have failed because of why: all of them, or the session ends.
func (c *conn) giveBack(ctx context.Context, tries []*session.Op, why error) error {
	if len(tries) == 0 {
		return nil
	}
	var list []string
	for _, op := range tries {
		list = append(list, "RELEASE_LOCK("+literal(op.Key)+")")
	}
	if _, err := c.row(ctx, "SELECT "+strings.Join(list, ",")); err != nil {
		return err
	}
	for _, op := range tries {
		op.OK, op.Err = false, classify(ctx, why)
	}
	return nil
}

// checkKey refuses a key that this server would take for another.
func (s *server) checkKey(key session.Key) error {
	if s.o.ExactKeys && s.foldsCase.Load() && strings.ToLower(string(key)) != string(key) {
		return fmt.Errorf("%w: on MySQL the names of locks have no case: with exact keys, use lower-case letters", driver.ErrRefused)
	}
	return nil
}
