package postgres

import (
	"fmt"
	"strconv"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/session"
)

// step is one statement under way.
type step struct {
	ops []*session.Op // whose answers are its rows; none: it belongs to no flight
	as  role
}

// role is what a statement is to its ops.
type role int

const (
	answers  role = iota // its rows are their answers
	prepares             // nobody needs its answer
	undoes               // it gives back what a statement that failed may have left locked
)

// encode appends what ops ask of the server to buf. What is given back goes first and in one statement, and what is tried goes last and in
// one: nobody can see the difference, as long as no key is there twice. The mutex is held.
func (c *conn) encode(ops []*session.Op) {
	for _, op := range ops {
		op.OK, op.Contended, op.Token, op.Err = false, false, 0, nil
	}
	if len(ops) == 1 || !c.distinct(ops) {
		for i := range ops {
			c.encodeOne(ops[i : i+1])
		}
		return
	}
	var starts [places + 1]int
	c.sorted = c.sorted[:0]
	for p := range places {
		for _, op := range ops {
			if placeOf(op) == p {
				c.sorted = append(c.sorted, op)
			}
		}
		starts[p+1] = len(c.sorted)
	}
	c.encodeMany(c.sorted[:starts[1]])
	for i := starts[1]; i < starts[2]; i++ {
		c.encodeOne(c.sorted[i : i+1])
	}
	c.encodeMany(c.sorted[starts[2]:])
}

// placeOf is where op comes among those that are sent together.
func placeOf(op *session.Op) int {
	switch op.Kind {
	case session.Free:
		return 0
	case session.Try:
		return 2
	}
	return 1
}

const places = 3

// distinct says that no key is there twice. The mutex is held.
func (c *conn) distinct(ops []*session.Op) bool {
	clear(c.seen)
	for _, op := range ops {
		if op.Key != "" {
			if c.seen[op.Key] {
				return false
			}
			c.seen[op.Key] = true
		}
	}
	return true
}

// encodeMany is encodeOne for several Free, or several Try. The mutex is held.
func (c *conn) encodeMany(ops []*session.Op) {
	if len(ops) < 2 {
		for i := range ops {
			c.encodeOne(ops[i : i+1])
		}
		return
	}
	args, his, los := c.args[0][:0], c.args[1][:0], c.args[2][:0]
	st := &c.server.statements.freeMany
	if ops[0].Kind == session.Try {
		st = &c.server.statements.tryMany
		fit, err := c.server.room(len(ops))
		for _, op := range ops[fit:] {
			op.Err = err
		}
		ops = ops[:fit]
	}
	for i, op := range ops {
		key, err := number64(op.Key)
		if err != nil { // no layout makes such a key
			op.Err = err
			c.encodeMany(ops[:i])
			c.encodeMany(ops[i+1:])
			return
		}
		args = append(args, key)
		if op.Kind == session.Free {
			hi, lo := side(key)
			his, los = append(his, hi), append(los, lo)
		}
	}
	args = append(append(args, his...), los...)
	c.args = [3][]int64{args, his, los}
	if len(args) > 0 {
		c.add(step{ops, answers}, st, args...)
	}
}

// encodeOne appends what the one op asks of the server to buf. The mutex is held.
func (c *conn) encodeOne(ops []*session.Op) {
	st, op := &c.server.statements, ops[0]
	switch op.Kind {
	case session.Ping:
		c.add(step{ops, answers}, &st.ping)
		return
	case session.End:
		if pid, began, ok := parseID(op.ID); ok {
			c.add(step{ops, prepares}, &st.end, pid, began)
			c.add(step{ops, answers}, &st.gone, pid, began)
			return
		}
		op.Err = fmt.Errorf("%w: %q is no session", driver.ErrRefused, op.ID)
		return
	case session.Ask:
		op.Err = fmt.Errorf("%w: a session of Postgres knows no such request", driver.ErrRefused)
		return
	}
	key, err := number64(op.Key)
	if err != nil {
		op.Err = err
		return
	}
	switch op.Kind {
	case session.Try:
		if _, op.Err = c.server.room(1); op.Err != nil {
			return
		}
		if c.blocks {
			c.add(step{ops, prepares}, &st.contend, key)
			c.add(step{ops, answers}, &st.wait, key)
		} else {
			c.add(step{ops, answers}, &st.try, key)
		}
	case session.Free:
		hi, lo := side(key)
		c.add(step{ops, answers}, &st.free, key, hi, lo)
	case session.Await:
		if op.OK = c.awaited[op.Key]; op.OK { // a second time would have to be left a second time
			return
		}
		if _, op.Err = c.server.room(1); op.Err == nil {
			c.awaiting(op.Key, true)
			hi, lo := side(key)
			c.add(step{ops, answers}, &st.await, key, hi, lo)
		}
	case session.Leave:
		if c.awaited[op.Key] {
			c.awaiting(op.Key, false)
			hi, lo := side(key)
			c.add(step{ops, answers}, &st.leave, hi, lo)
		}
	}
}

func number64(key session.Key) (int64, error) {
	n, err := strconv.ParseInt(string(key), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %q is no key", driver.ErrRefused, key)
	}
	return n, nil
}

// awaiting notes that key is awaited, or no longer. The mutex is held.
func (c *conn) awaiting(key session.Key, yes bool) {
	if yes {
		c.awaited[key] = true
		c.server.used.Add(1)
	} else {
		delete(c.awaited, key)
		c.server.used.Add(-1)
	}
}

// add appends a statement to buf. The mutex is held.
func (c *conn) add(s step, st *statement, args ...int64) {
	c.buf = st.appendRun(c.buf, args...)
	c.steps = append(c.steps, s)
	if len(s.ops) > 0 {
		c.left++
	}
}
