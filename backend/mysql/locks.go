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

// question makes one statement of what ops ask of the session, a function for each, in their order, and returns the ops that it asks: Await and Leave do
// nothing on this server. A Ping asks for the session's own marker: a connection that something between here and the server has replaced is not taken for
// the session. wait is for how long a Try waits. The answer is one digit for each function: 1, 0, or 2 for NULL.
func (c *conn) question(ops []*session.Op, wait time.Duration) (query string, asked []*session.Op) {
	var functions []string
	for _, op := range ops {
		if op.Err = c.server.checkKey(op.Key); op.Err != nil {
			continue
		}
		function := ""
		switch op.Kind {
		case session.Try:
			function = fmt.Sprintf("GET_LOCK(%s,%d)", literal(op.Key), wait/time.Second)
		case session.Free:
			function = "RELEASE_LOCK(" + literal(op.Key) + ")"
		case session.Ping:
			function = "IS_USED_LOCK('" + c.marker + "')=CONNECTION_ID()"
		default:
			continue
		}
		functions, asked = append(functions, "COALESCE("+function+",2)"), append(asked, op)
	}
	return "SELECT CONCAT(" + strings.Join(functions, ",") + ")a", asked
}

// locks carries out ops in one statement, then draws the tokens of the locks that were taken in another: a token must be drawn when it is certain that the
// lock is ours. An error: nothing is known, and the session must end.
func (c *conn) locks(ctx context.Context, ops []*session.Op, wait time.Duration) error {
	query, asked := c.question(ops, wait)
	if len(asked) == 0 {
		return nil
	}
	r, err := c.row(ctx, query)
	if number(err) != 0 {
		return c.refused(ctx, asked, err)
	}
	if err != nil {
		return err
	}
	answer := r.text(0)
	if len(answer) != len(asked) {
		return fmt.Errorf("the server answered %q to %d functions", answer, len(asked))
	}
	var won []*session.Op
	for i, op := range asked {
		op.OK = answer[i] == '1'
		switch {
		case op.Kind == session.Ping && !op.OK:
			return errors.New("another session answers")
		case op.Kind == session.Try && op.OK:
			won = append(won, op)
		case op.Kind == session.Try && answer[i] == '2':
			op.Err = fmt.Errorf("%w: the server has ended the request", driver.ErrUnavailable)
		}
	}
	return c.draw(ctx, won)
}

// refused draws the conclusions from a statement of which the server says that it fails: it may have carried out some of the functions before. Locks that it may
// have taken are given back; whether it has released something is not known, which ends the session.
func (c *conn) refused(ctx context.Context, asked []*session.Op, why error) error {
	var tries []*session.Op
	for _, op := range asked {
		switch op.Kind {
		case session.Free:
			return why
		case session.Try:
			tries = append(tries, op)
		default:
			op.Err = classify(ctx, why)
		}
	}
	return c.giveBack(ctx, tries, why)
}

// giveBack releases the locks of tries that have failed because of why: all of them, or the session ends.
func (c *conn) giveBack(ctx context.Context, tries []*session.Op, why error) error {
	for _, op := range tries {
		if _, err := c.row(ctx, "SELECT RELEASE_LOCK("+literal(op.Key)+")"); err != nil {
			return err
		}
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
