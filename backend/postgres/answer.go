package postgres

import (
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/lockport/lockport/internal/session"
)

// answer is what has come of a statement: a number, or NULL, for each row, and an error perhaps.
type answer struct {
	values []value
	err    error
}

type value struct {
	n  int64
	ok bool // not NULL
}

func (a *answer) add(row *pgproto3.DataRow) {
	var v value
	if len(row.Values) > 0 {
		v.n, v.ok = number(row.Values[0])
	}
	a.values = append(a.values, v)
}

func (a *answer) reset() { a.values, a.err = a.values[:0], nil }

// conclude writes the answer to a statement into its ops. What it returns ends the session. The mutex is held.
//
// An error of the server says nothing of the rows that came before it: a transaction that fails undoes nothing of a session's locks. Of the others it leaves open
// whether they took their key, or gave it back, before the error came. Now it is given back for certain.
func (c *conn) conclude(s step, a *answer) error {
	switch {
	case s.as == prepares:
		return nil
	case s.as == undoes:
		return a.err // what remains is to end the session
	case len(a.values) < len(s.ops) && a.err == nil:
		return fmt.Errorf("the server sent %d rows instead of %d", len(a.values), len(s.ops))
	}
	c.buf = c.buf[:0]
	var tell []int64
	for i, op := range s.ops {
		if i >= len(a.values) {
			c.undo(s.ops[i:i+1], a.err)
			continue
		}
		v := a.values[i]
		switch op.Kind {
		case session.Try:
			if op.OK = v.ok; op.OK {
				op.Token = uint64(v.n)
				c.held[op.Key] = true
				c.server.used.Add(1)
			}
		case session.Free:
			if op.OK = v.n != notFreed; op.OK {
				c.freed(op.Key)
			}
			if v.n == freedForAll {
				key, _ := number64(op.Key)
				tell = append(tell, key)
			}
		case session.Await, session.Leave:
			op.OK = true
		case session.End:
			op.OK = v.n > 0
		case session.Ping:
			if op.OK = v.n == c.pid; !op.OK {
				return errors.New("another session answers: " + poolerText)
			}
		}
	}
	if len(tell) > 0 {
		c.add(step{}, &c.server.statements.tell, tell...)
	}
	if len(c.buf) == 0 {
		return nil
	}
	_, err := c.socket.Write(c.buf)
	return err
}

// freed forgets a key. The mutex is held.
func (c *conn) freed(key session.Key) {
	if c.held[key] {
		delete(c.held, key)
		c.server.used.Add(-1)
	}
}

// undo follows the one op, which the server did not answer but with err. The mutex is held.
func (c *conn) undo(ops []*session.Op, err error) {
	st, op := &c.server.statements, ops[0]
	op.Err = err
	key, noKey := number64(op.Key)
	if noKey != nil {
		return
	}
	switch op.Kind {
	case session.Try:
		if c.blocks && errors.Is(err, errLockTimeout) { // it goes on waiting
			c.line.Again(time.Now())
			c.add(step{ops, answers}, &st.wait, key)
		} else {
			c.add(step{ops, undoes}, &st.unlock, key)
		}
	case session.Free:
		op.OK, op.Err = true, nil
		c.freed(op.Key)
		c.add(step{ops, undoes}, &st.unlock, key)
	case session.Await:
		c.awaiting(op.Key, false)
		hi, lo := side(key)
		c.add(step{ops, undoes}, &st.leave, hi, lo)
	}
}
