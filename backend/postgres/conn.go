package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/lockport/lockport/internal/session"
)

// conn is one session of ours at the server. It implements session.Conn.
type conn struct {
	server *server
	events session.Events
	link   *link
	pid    int64 // of the server's process
	began  int64 // when that process began, in microseconds since 1970

	statements *statements
	prepared   map[string]bool
	awaited    map[session.Key]bool
	shares     map[session.Key]int // how often the session has a key in shared mode
	used       int64               // of the server's lock table
}

// Close implements session.Conn.
func (c *conn) Close() {
	c.link.close()
	c.uses(-c.used)
}

// uses counts entries of the server's lock table.
func (c *conn) uses(n int64) {
	c.used += n
	c.server.used.Add(n)
}

// took counts what op took (1) or gave back (-1).
func (c *conn) took(op *session.Op, n int) {
	c.uses(int64(n))
	if !op.Shared {
		return
	}
	if c.shares[op.Key] += n; c.shares[op.Key] == 0 {
		delete(c.shares, op.Key)
	}
}

// Do implements session.Conn. What is given back and tried goes in one statement: nobody can tell it from one after the other.
func (c *conn) Do(ctx context.Context, ops []*session.Op) error {
	return c.link.use(func(p *pgx.Conn) error {
		var alone, shared changes
		var others []*session.Op
		for _, op := range ops {
			switch {
			case op.Kind != session.Free && op.Kind != session.Try, len(op.Slots) > 0, op.Slot != "":
				others = append(others, op)
			case op.Shared:
				shared.add(op)
			default:
				alone.add(op)
			}
		}
		err := c.change(ctx, p, alone, &c.statements.alone)
		if err == nil {
			err = c.change(ctx, p, shared, &c.statements.shared)
		}
		for _, op := range others {
			if err == nil {
				err = c.other(ctx, p, op)
			}
		}
		c.hear(p)
		return err
	})
}

// changes are what goes in one statement.
type changes struct{ frees, tries []*session.Op }

func (ch *changes) add(op *session.Op) {
	if op.Kind == session.Free {
		ch.frees = append(ch.frees, op)
	} else {
		ch.tries = append(ch.tries, op)
	}
}

// change gives keys back and tries others, in the mode of st.
func (c *conn) change(ctx context.Context, p *pgx.Conn, ch changes, st *lockStatements) error {
	frees, tries := ch.frees, ch.tries
	fit, full := c.server.room(len(tries))
	for _, op := range tries[fit:] {
		op.Err = full
	}
	tries = tries[:fit]
	switch {
	case len(frees) == 0 && len(tries) == 0:
		return nil
	case len(frees) == 0 && len(tries) == 1:
		return c.ask(ctx, p, tries, st.try, number(tries[0].Key))
	case len(frees) == 1 && len(tries) == 0:
		free, args := c.free(frees[0])
		return c.ask(ctx, p, frees, free, args...)
	}
	keys, his, los := make([]int64, len(frees)), make([]int32, len(frees)), make([]int32, len(frees))
	for i, op := range frees {
		keys[i] = number(op.Key)
		his[i], los[i] = side(keys[i])
	}
	tried := make([]int64, len(tries))
	for i, op := range tries {
		tried[i] = number(op.Key)
	}
	return c.ask(ctx, p, append(frees, tries...), st.change, keys, his, los, tried)
}

// tryPermit takes one permit of several, none of which the session has.
func (c *conn) tryPermit(ctx context.Context, p *pgx.Conn, op *session.Op) error {
	if _, op.Err = c.server.room(1); op.Err != nil {
		return nil
	}
	slots := make([]int64, len(op.Slots))
	for i, slot := range op.Slots {
		slots[i] = number(slot)
	}
	rows, err := c.query(ctx, p, c.statements.tryPermit, slots)
	if op.Err = refusal(p, err); op.Err != nil {
		_, err = c.query(ctx, p, c.statements.undoPermit, slots)
	}
	if err != nil {
		return ended(err)
	}
	if op.OK = len(rows) == 2 && op.Err == nil; op.OK {
		op.Slot, op.Token = sessionKey(rows[0].Int64), uint64(rows[1].Int64)
		c.took(op, 1)
	}
	return nil
}

// free is the statement that carries out a Free, with its arguments.
func (c *conn) free(op *session.Op) (st statement, args []any) {
	key := number(op.Key)
	hi, lo := side(key)
	if op.Slot != "" {
		return c.statements.freePermit, []any{number(op.Slot), key, hi, lo}
	}
	return c.statements.of(op).free, []any{key, hi, lo}
}

// other carries out an op that neither gives back nor tries, or does so with a permit.
func (c *conn) other(ctx context.Context, p *pgx.Conn, op *session.Op) error {
	ops := []*session.Op{op}
	key := number(op.Key)
	hi, lo := side(key)
	switch op.Kind {
	case session.Try:
		return c.tryPermit(ctx, p, op)
	case session.Free:
		free, args := c.free(op)
		return c.ask(ctx, p, ops, free, args...)
	case session.Ping:
		return c.ask(ctx, p, ops, c.statements.ping)
	case session.End:
		earlier := op.Earlier.(*conn)
		return c.ask(ctx, p, ops, c.statements.end, int32(earlier.pid), earlier.began)
	case session.Await:
		if _, op.Err = c.server.room(1); op.Err == nil {
			return c.ask(ctx, p, ops, c.statements.await, key, hi, lo)
		}
	case session.Leave:
		if c.awaited[op.Key] {
			return c.ask(ctx, p, ops, c.statements.leave, hi, lo)
		}
	}
	return nil
}

// Wait implements session.Conn. It goes on for as long as it takes, but in turns.
func (c *conn) Wait(ctx context.Context, op *session.Op) error {
	return c.link.use(func(p *pgx.Conn) error {
		if _, op.Err = c.server.room(1); op.Err != nil {
			return nil
		}
		key := number(op.Key)
		_, err := c.query(ctx, p, c.statements.contend, key)
		for err == nil {
			turn, cancel := context.WithTimeout(ctx, waitLockTimeout+c.server.ttl)
			var rows []pgtype.Int8
			rows, err = c.query(turn, p, c.statements.of(op).wait, key)
			cancel()
			if !lockTimeout(err) {
				return c.conclude(ctx, p, []*session.Op{op}, rows, err)
			}
			err = nil // it goes on waiting
		}
		if op.Err = refusal(p, err); op.Err != nil {
			return nil
		}
		return ended(err)
	})
}

// linger is for how long a session that awaits nothing does not listen after a request.
const linger = 2 * time.Millisecond

// Listen implements session.Conn.
func (c *conn) Listen(ctx context.Context) error {
	if len(c.awaited) == 0 { // what comes can wait for a moment, and often the next request comes sooner
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(linger):
		}
	}
	return c.link.use(func(p *pgx.Conn) error {
		for {
			n, err := p.WaitForNotification(ctx)
			switch {
			case err == nil && n != nil:
				c.notified(n)
			case err != nil && p.IsClosed():
				return ended(err)
			case ctx.Err() != nil:
				return nil
			}
		}
	})
}

// hear tells of the notifications that came with answers.
func (c *conn) hear(p *pgx.Conn) {
	for n, err := p.WaitForNotification(past); err == nil && n != nil; n, err = p.WaitForNotification(past) {
		c.notified(n)
	}
}

// past is a context that has ended.
var past = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// notified tells of a notification.
func (c *conn) notified(n *pgconn.Notification) {
	if n.Channel != channel || n.Payload == "" {
		return
	}
	switch key := session.Key(n.Payload[1:]); n.Payload[0] {
	case 'f':
		if c.awaited[key] {
			c.events.Freed(key)
		}
	case 'c':
		if int64(n.PID) != c.pid {
			c.events.Contended(key)
		}
	}
}

// ask carries out ops by one statement, whose rows are their answers.
func (c *conn) ask(ctx context.Context, p *pgx.Conn, ops []*session.Op, st statement, args ...any) error {
	rows, err := c.query(ctx, p, st, args...)
	return c.conclude(ctx, p, ops, rows, err)
}

// query returns the rows of a statement, and an error perhaps, which says nothing of the rows before it.
func (c *conn) query(ctx context.Context, p *pgx.Conn, st statement, args ...any) (all []pgtype.Int8, err error) {
	if !c.prepared[st.name] {
		if _, err := p.Prepare(ctx, st.name, st.sql); err != nil {
			return nil, err
		}
		c.prepared[st.name] = true
	}
	rows, err := p.Query(ctx, st.name, args...)
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		var v pgtype.Int8
		if err := rows.Scan(&v); err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}

// conclude writes the answers of a statement into its ops. An error ends the session.
//
// An error of the server says nothing of the rows that came before it: a transaction that fails undoes nothing of a session's locks. Of the others it leaves open
// whether they took their key, or gave it back, before the error came. Now it is given back for certain.
func (c *conn) conclude(ctx context.Context, p *pgx.Conn, ops []*session.Op, rows []pgtype.Int8, err error) error {
	failure := refusal(p, err)
	if err != nil && failure == nil {
		return ended(err)
	}
	if len(rows) < len(ops) && failure == nil {
		return fmt.Errorf("the server sent %d rows instead of %d", len(rows), len(ops))
	}
	for i, op := range ops {
		if i >= len(rows) {
			if err := c.undo(ctx, p, op, failure); err != nil {
				return ended(err)
			}
			continue
		}
		v := rows[i]
		switch op.Kind {
		case session.Try:
			if op.OK = v.Valid; op.OK {
				op.Token = uint64(v.Int64)
				c.took(op, 1)
			}
		case session.Free:
			if op.OK = v.Int64 > 0; op.OK {
				c.took(op, -1)
			}
		case session.Await:
			c.awaited[op.Key] = true
			c.uses(1)
		case session.Leave:
			delete(c.awaited, op.Key)
			c.uses(-1)
		case session.End:
			op.OK = v.Int64 > 0
		case session.Ping:
			if op.OK = v.Int64 == c.pid; !op.OK {
				return errors.New("another session answers: " + poolerText)
			}
		}
	}
	return nil
}

// undo follows an op that the server did not answer but with failure. An error ends the session.
func (c *conn) undo(ctx context.Context, p *pgx.Conn, op *session.Op, failure error) error {
	op.Err = failure
	free, args := c.free(op)
	switch op.Kind {
	case session.Try:
		if c.shares[op.Key] > 0 {
			return errors.New(failure.Error()) // whether it took the key is not known, and one given back too many would be another reader's
		}
		_, err := c.query(ctx, p, free, args...)
		return err
	case session.Free:
		if c.shares[op.Key] > 1 {
			return errors.New(failure.Error())
		}
		op.OK, op.Err = true, nil
		c.took(op, -1)
		_, err := c.query(ctx, p, free, args...)
		return err
	case session.Await:
		hi, lo := side(number(op.Key))
		_, err := c.query(ctx, p, c.statements.leave, hi, lo)
		return err
	}
	return nil
}

// number is the server's key.
func number(key session.Key) int64 {
	n, _ := strconv.ParseInt(string(key), 10, 64) // the layout has made it of a number
	return n
}
